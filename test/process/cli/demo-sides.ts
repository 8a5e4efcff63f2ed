/** The demos with two sides, for the tests that start each side by a command of its own. */
import assert from "node:assert/strict";
import { untilStopped } from "../../support/process-state.js";
import { nightly } from "../../support/random.js";
import type { CliRig, Outcome } from "./cli-rig.js";
import { Demo } from "./demo-rig.js";

export const SIDES = ["producer", "consumer"] as const;
type Side = (typeof SIDES)[number];

/** A side stops itself at this line, when the two have met and both are needed. */
interface Middle {
  readonly side: Side;
  readonly line: RegExp;
  /** So many that the other side is not done by then. */
  readonly elements: string;
}

export const demos: Readonly<Record<string, Middle>> = {
  pool: { side: "consumer", line: /^opened it/, elements: "100" },
  "array-handle": { side: "consumer", line: /by its handle/, elements: "101" },
  vmm: { side: "consumer", line: /^received \d+ elements/, elements: "1001" },
  legacy: { side: "consumer", line: /^opened it/, elements: "10" },
  events: { side: "consumer", line: /^imported the event/, elements: "1000" },
  "consumer-first": { side: "consumer", line: /opened it/, elements: "10" },
  ring: { side: "producer", line: /^queued 100 frames/, elements: "500000" },
};
export const names = Object.keys(demos);
/** One that meets at a socket and one with a handle file, for tests of ends. All take minutes. */
export const someNames = nightly ? names : ["vmm", "legacy"];
/** These put a handle file beside the path. */
export const HANDLE_FILES = ["legacy", "consumer-first"];
export const otherOf = (side: Side): Side => (side === "producer" ? "consumer" : "producer");

/** Each side says one of these when it waits for the other. */
export const WAITS = /waits for |^offers /;

export function placeIn(rig: CliRig, name: string): string {
  return name === "ring" ? "frames" : rig.path("meet");
}

export function start(rig: CliRig, name: string, side: Side): Demo {
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

export function assertDone({ code, stdout, stderr }: Outcome): void {
  assert.deepEqual([code, stderr], [0, ""]);
  assert.match(stdout, /\nDone: every byte was verified, in .+\.\n$/);
}

/** @param error a code, or several with bars between them */
export function assertFailed({ code, stdout, stderr }: Outcome, error: string): void {
  assert.equal(code, 1, stderr);
  assert.match(stderr, new RegExp(`^error\\[(${error})\\]: .+\\n {2}hint: .+\\n$`));
  assert.doesNotMatch(stdout, /Done/);
}

/** Both sides of a demo after they have met. One has stopped itself. */
export class Pair {
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
    const stopped = await stopping.sayer(middle.line);
    await untilStopped(stopped);
    return new Pair(rig, name, sides, stopped);
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
