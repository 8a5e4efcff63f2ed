/** The demos in examples/, on the host device, print what their first comment says. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { exampleHead, saidIn } from "../../docs/example-output.js";
import { someOf } from "../../support/random.js";
import { CliRig, eventually } from "./cli-rig.js";
import { assertNothingLeft, Demo, processesOf } from "./demo-rig.js";

const demos: Readonly<Record<string, readonly string[]>> = {
  pool: ["-n", "100"],
  "array-handle": ["-n", "101"],
  vmm: ["-n", "1001"],
  legacy: ["-n", "10"],
  fork: ["-n", "10"],
  events: ["-n", "1000"],
  fibonacci: ["-n", "20"],
  ring: ["-n", "100"],
  channel: ["-n", "100"],
  pipeline: ["-n", "1000"],
  "simple-ipc": ["-n", "100"],
  exchange: ["-n", "100"],
  "consumer-first": ["-n", "10"],
  "supervised-workers": ["-n", "1000"],
  daemon: ["-n", "10"],
};

describe("cuda-ipc demo of a program in examples/", () => {
  for (const [name, options] of Object.entries(demos)) {
    it(`${name} prints what its first comment says, and leaves nothing behind`, async () => {
      await using rig = await CliRig.open();
      const text = await rig.ok("demo", name, ...options);
      const lines = saidIn(text);
      const patterns = exampleHead(name).lines;
      for (const line of lines)
        assert.ok(
          patterns.some((it) => it.test(line)),
          `not in the comment: ${line}`,
        );
      for (const it of patterns)
        assert.ok(
          lines.some((line) => it.test(line)),
          `not printed: ${it}`,
        );
      assert.equal(lines.length, patterns.length, text);
      assert.match(text, /\nDone: every byte was verified, in .+\.\n$/);
      await assertNothingLeft(rig);
    });
  }

  it("runs with one element, and with other numbers of processes", async () => {
    await using rig = await CliRig.open();
    for (const name of ["pool", "array-handle", "vmm", "ring", "pipeline"])
      await rig.ok("demo", name, "--elements", "1");
    assert.match(
      await rig.ok("demo", "simple-ipc", "-n", "10", "--processes", "2"),
      /all 2 are done/,
    );
    assert.match(
      await rig.ok("demo", "exchange", "-n", "10", "--processes", "2"),
      /all 2 are done/,
    );
    const text = await rig.ok("demo", "fibonacci", "-n", "2", "--processes", "4");
    assert.match(text, /finds 0, 1, \.\.\. 1:/);
  });

  it("kernels is skipped without a GPU, and says why", async () => {
    await using rig = await CliRig.open();
    const text = await rig.ok("demo", "kernels");
    assert.match(
      text,
      /\nSkipped "kernels": Cannot compile kernels\.cu for host: it runs no code for GPUs\n$/,
    );
    assert.doesNotMatch(text, /Done/);
    await assertNothingLeft(rig);
  });

  it("refuses options that it cannot use", async () => {
    await using rig = await CliRig.open();
    assert.match(
      await rig.fails("USAGE", "demo", "exchange", "--processes", "3"),
      /--processes must be even: 3/,
    );
    for (const name of ["fibonacci", "simple-ipc"]) {
      assert.match(
        await rig.fails("USAGE", "demo", name, "--processes", "1"),
        /--processes must be at least 2/,
      );
    }
    await rig.fails("USAGE", "demo", "pool", "--elements", "0");
    await rig.fails("INVALID_DEVICE", "demo", "pool", "--device", "gpu");
    await rig.fails("OUT_OF_MEMORY", "demo", "fork", "--elements", String(2 ** 39));
    await assertNothingLeft(rig);
  });
});

describe("a demo that is killed or interrupted", () => {
  const long = {
    events: { elements: "1000000", at: /^imported the event/ },
    ring: { elements: "1000000", at: /^queued 100 frames/ },
    "simple-ipc": { elements: "50000000", at: /^starts 3 ranks/ },
    pipeline: { elements: "1000000", at: /^decode: sends/ },
    // Its pinned model would keep its hub running.
    "supervised-workers": { elements: "16384", at: /^loader: / },
  } as const;

  for (const [name, { elements, at }] of someOf(Object.entries(long), 2)) {
    it(`${name} leaves no process and no file behind after SIGINT`, async () => {
      await using rig = await CliRig.open();
      const demo = Demo.start(rig, name, "--elements", elements);
      await demo.sayer(at);
      demo.child.kill("SIGINT");
      const { code, stderr } = await demo.outcome;
      assert.deepEqual([code, stderr], [130, "Interrupted.\n"]);
      await assertNothingLeft(rig);
    });
  }

  for (const name of someOf(["events", "ring", "pipeline"] as const, 1)) {
    it(`${name} fails if a child is killed`, async () => {
      await using rig = await CliRig.open();
      const { elements, at } = long[name];
      const demo = Demo.start(rig, name, "--elements", elements);
      process.kill(await demo.sayer(at), "SIGKILL");
      const { code, stdout, stderr } = await demo.outcome;
      assert.equal(code, 1);
      assert.match(stderr, /^error\[PEER_GONE\]: /);
      assert.doesNotMatch(stdout, /Done/);
      await assertNothingLeft(rig);
    });
  }

  it("ends with all its processes if the example is killed", async () => {
    await using rig = await CliRig.open();
    const { elements, at } = long["simple-ipc"];
    const demo = Demo.start(rig, "simple-ipc", "--elements", elements);
    process.kill(await demo.sayer(at), "SIGKILL");
    assert.match(
      (await demo.outcome).stderr,
      /^error\[PEER_GONE\]: Cannot finish example "simple-ipc": it ended too early, with SIGKILL/,
    );
    await assertNothingLeft(rig);
  });

  it("ends with all its processes if the command is killed", async () => {
    await using rig = await CliRig.open();
    const demo = Demo.start(rig, "ring", "--elements", long.ring.elements);
    await demo.sayer(long.ring.at);
    demo.child.kill("SIGKILL");
    await once(demo.child, "exit");
    await eventually("all processes end", () => (processesOf(rig).length === 0 ? true : undefined));
  });
});
