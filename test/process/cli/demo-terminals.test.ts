/**
 * The two sides of a demo, each started by a command of its own as in two terminals: in both orders,
 * and with one side that is interrupted, killed, missing or doubled.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { saidIn, terminalLines } from "../../docs/example-output.js";
import { CliRig, eventually, type Outcome } from "./cli-rig.js";
import { assertNothingLeft, Demo } from "./demo-rig.js";

const SIDES = ["producer", "consumer"] as const;
type Side = (typeof SIDES)[number];

/** A side stops itself at this line, when the two have met and both are needed. */
interface Middle {
  readonly side: Side;
  readonly line: RegExp;
  /** So many that the other side is not done by then. */
  readonly elements: string;
}

const demos: Readonly<Record<string, Middle>> = {
  pool: { side: "consumer", line: /^opened it/, elements: "100" },
  "array-handle": { side: "consumer", line: /by its handle/, elements: "101" },
  vmm: { side: "consumer", line: /^received \d+ elements/, elements: "1001" },
  legacy: { side: "consumer", line: /^opened it/, elements: "10" },
  events: { side: "consumer", line: /^imported the event/, elements: "1000" },
  "consumer-first": { side: "consumer", line: /opened it/, elements: "10" },
  ring: { side: "producer", line: /^queued 100 frames/, elements: "500000" },
};
const names = Object.keys(demos);
/** These put a handle file beside the path. */
const HANDLE_FILES = ["legacy", "consumer-first"];
const otherOf = (side: Side): Side => (side === "producer" ? "consumer" : "producer");

/** Each side says one of these when it waits for the other. */
const WAITS = /waits for |^offers /;

function placeIn(rig: CliRig, name: string): string {
  return name === "ring" ? "frames" : rig.path("meet");
}

function start(rig: CliRig, name: string, side: Side): Demo {
  const elements = demos[name]?.elements ?? "10";
  const count = side === "producer" ? ["--elements", elements] : [];
  return Demo.start(rig, name, side, placeIn(rig, name), ...count);
}

/** Starts a side whose process stops itself with SIGSTOP after this line. */
function startStopped(rig: CliRig, name: string, middle: Middle): Demo {
  const preload = `const log = console.log;
    console.log = (text) => {
      log(text);
      if (${middle.line}.test(text.replace(/^ *\\d+ {2}/, ""))) process.kill(process.pid, "SIGSTOP");
    };`;
  rig.env.NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(preload)}`;
  const started = start(rig, name, middle.side);
  delete rig.env.NODE_OPTIONS;
  return started;
}

function assertDone({ code, stdout, stderr }: Outcome): void {
  assert.deepEqual([code, stderr], [0, ""]);
  assert.match(stdout, /\nDone: every byte was verified, in .+\.\n$/);
}

/** @param error a code, or several with bars between them */
function assertFailed({ code, stdout, stderr }: Outcome, error: string): void {
  assert.equal(code, 1, stderr);
  assert.match(stderr, new RegExp(`^error\\[(${error})\\]: .+\\n {2}hint: .+\\n$`));
  assert.doesNotMatch(stdout, /Done/);
}

describe("a demo in two terminals", () => {
  for (const name of names) {
    for (const side of SIDES) {
      it(`${name} works if the ${side} starts first, and leaves nothing behind`, async () => {
        await using rig = await CliRig.open();
        const first = start(rig, name, side);
        await first.sayer(WAITS);
        const second = start(rig, name, otherOf(side));
        const sides = { [side]: first, [otherOf(side)]: second };
        for (const [side, { outcome }] of Object.entries(sides)) {
          const ended = await outcome;
          assertDone(ended);
          const [lines, promised] = [saidIn(ended.stdout), terminalLines(name, side)];
          assert.equal(lines.length, promised.length, ended.stdout);
          for (const [i, line] of lines.entries()) assert.match(line, promised[i] ?? /^$/);
        }
        await assertNothingLeft(rig);
      });

      it(`${name}: Ctrl-C ends a ${side} that waits, and leaves nothing behind`, async () => {
        await using rig = await CliRig.open();
        const alone = start(rig, name, side);
        await alone.sayer(WAITS);
        alone.child.kill("SIGINT");
        const { code, stderr } = await alone.outcome;
        assert.deepEqual([code, stderr], [130, "Interrupted.\n"]);
        await assertNothingLeft(rig);
      });

      it(`${name}: SIGKILL of the ${side} in the middle ends both`, async () => {
        await using rig = await CliRig.open();
        await using pair = await Pair.inTheMiddle(rig, name);
        process.kill(await pair.pidOf(side), "SIGKILL");
        assertFailed(await pair[side].outcome, "PEER_GONE");
        pair.goOn();
        await pair.assertOtherEnds(side);
        await eventually("nothing is left where they met", async () =>
          (await readdir(rig.folder)).every((file) => !file.startsWith("meet")) ? true : undefined,
        );
      });
    }

    it(`${name}: Ctrl-C of one side in the middle ends both`, async () => {
      await using rig = await CliRig.open();
      await using pair = await Pair.inTheMiddle(rig, name);
      const side = otherOf(demos[name]?.side ?? "consumer");
      pair[side].child.kill("SIGINT");
      const { code, stderr } = await pair[side].outcome;
      assert.deepEqual([code, stderr], [130, "Interrupted.\n"]);
      pair.goOn();
      assertFailed(await pair[otherOf(side)].outcome, "PEER_GONE|STALE_HANDLE|BARRIER_BROKEN");
      await assertNothingLeft(rig);
    });

    it(`${name} works after a producer was killed, whatever it left`, async () => {
      await using rig = await CliRig.open();
      const killed = start(rig, name, "producer");
      const pid = await killed.sayer(WAITS);
      if (HANDLE_FILES.includes(name))
        await eventually("its handle file is there", () =>
          existsSync(rig.path("meet.json")) ? true : undefined,
        );
      process.kill(pid, "SIGKILL");
      assertFailed(await killed.outcome, "PEER_GONE");
      const consumer = start(rig, name, "consumer");
      await consumer.sayer(WAITS);
      const producer = start(rig, name, "producer");
      for (const { outcome } of [consumer, producer]) assertDone(await outcome);
      await assertNothingLeft(rig);
    });

    it(`${name} refuses a second producer, and the first goes on`, async () => {
      await using rig = await CliRig.open();
      const first = start(rig, name, "producer");
      await first.sayer(WAITS);
      const second = await start(rig, name, "producer").outcome;
      assertFailed(second, "NAME_TAKEN");
      const consumer = start(rig, name, "consumer");
      for (const { outcome } of [first, consumer]) assertDone(await outcome);
      await assertNothingLeft(rig);
    });
  }

  it("has a limit of 30 s for the other side, and says so", async () => {
    await using rig = await CliRig.open();
    const alone = names.flatMap((name) =>
      SIDES.map((side) => ({
        what: `${name} ${side}`,
        // Each at a place of its own.
        outcome: rig.start("demo", name, side, placeIn(rig, name).concat(`-${name}-${side}`))
          .outcome,
      })),
    );
    for (const { what, outcome } of alone) {
      const ended = await outcome;
      assertFailed(ended, "TIMEOUT");
      assert.match(ended.stderr, /within 30( s|000 ms)/, what);
    }
    await assertNothingLeft(rig);
  });

  it("does not replace a file that is not a socket", async () => {
    await using rig = await CliRig.open();
    await writeFile(rig.path("meet"), "precious");
    for (const name of names.filter((name) => name !== "ring")) {
      assertFailed(await start(rig, name, "producer").outcome, "FILE_EXISTS");
      assert.equal(await readFile(rig.path("meet"), "utf8"), "precious");
    }
    assert.deepEqual(await readdir(rig.folder), ["meet"]);
  });

  it("names the roles if the role is wrong, and the usage if the place is missing", async () => {
    await using rig = await CliRig.open();
    assert.match(
      await rig.fails("USAGE", "demo", "vmm", "observer", "x"),
      /demo vmm has no role "observer"; its roles are producer, consumer\./,
    );
    assert.match(
      await rig.fails("USAGE", "demo", "exchange", "producer", "x"),
      /demo exchange has no role "producer"; its role is rank\./,
    );
    for (const name of ["fork", "share", "crash"])
      assert.match(
        await rig.fails("USAGE", "demo", name, "producer", "x"),
        new RegExp(`demo ${name} has no roles; the demos with roles are pool, .+, exchange, `),
      );
    assert.match(
      await rig.fails("USAGE", "demo", "vmm", "consumer"),
      /consumer needs a PATH where both sides meet: cuda-ipc demo vmm consumer PATH\./,
    );
    assert.match(
      await rig.fails("USAGE", "demo", "ring", "producer"),
      /producer needs a NAME where both sides meet: cuda-ipc demo ring producer NAME\./,
    );
    await rig.fails("USAGE", "demo", "vmm", "consumer", "");
    await rig.fails("USAGE", "demo", "vmm", "consumer", "x", "y");
    assert.deepEqual(await readdir(rig.folder), []);
  });

  it("is shown in the help", async () => {
    await using rig = await CliRig.open();
    const help = await rig.ok("demo", "--help");
    assert.equal(await rig.ok("help", "demo"), help);
    assert.match(help, /\$ cuda-ipc demo vmm producer .+\n +\$ cuda-ipc demo vmm consumer /);
    for (const name of names)
      assert.match(help.slice(help.indexOf("In two terminals")), RegExp(name));
  });
});

/** Both sides of a demo after they have met. One has stopped itself. */
class Pair {
  readonly producer: Demo;
  readonly consumer: Demo;
  readonly #rig: CliRig;
  readonly #name: string;
  readonly #stopped: number;

  private constructor(rig: CliRig, name: string, sides: Record<Side, Demo>, stopped: number) {
    this.producer = sides.producer;
    this.consumer = sides.consumer;
    this.#rig = rig;
    this.#name = name;
    this.#stopped = stopped;
  }

  static async inTheMiddle(rig: CliRig, name: string): Promise<Pair> {
    const middle = demos[name];
    assert.ok(middle !== undefined);
    const stopping = startStopped(rig, name, middle);
    const other = start(rig, name, otherOf(middle.side));
    const sides =
      middle.side === "producer"
        ? { producer: stopping, consumer: other }
        : { producer: other, consumer: stopping };
    return new Pair(rig, name, sides, await stopping.sayer(middle.line));
  }

  /** The process of a side, which is a child of its command. */
  pidOf(side: Side): Promise<number> {
    return this[side].sayer(/./);
  }

  /** Lets the stopped process go on, unless it was killed. */
  goOn(): void {
    try {
      process.kill(this.#stopped, "SIGCONT");
    } catch {
      // It was killed.
    }
  }

  /** The other side ends, with an error unless its demo shows what a dead process leaves. */
  async assertOtherEnds(side: Side): Promise<void> {
    const { outcome } = this[otherOf(side)];
    const what = `${this.#name} without its ${side}`;
    if (what === "vmm without its consumer") {
      // An offer is for any number of consumers: the producer waits for another one.
      assertDone(await start(this.#rig, this.#name, side).outcome);
      assertDone(await outcome);
    } else if (what === "consumer-first without its producer") assertDone(await outcome);
    else assertFailed(await outcome, "PEER_GONE|STALE_HANDLE");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.goOn();
    for (const { child } of [this.producer, this.consumer]) child.kill("SIGKILL");
    await Promise.allSettled([this.producer.outcome, this.consumer.outcome]);
  }
}
