import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, readdir } from "node:fs/promises";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { CliRig, eventually } from "./cli-rig.js";

/** The pids at the beginning of the printed steps. */
function pidsIn(text: string): number[] {
  return [...text.matchAll(/^ {2}\w+ +(\d+) {2}/gm)].map((match) => Number(match[1]));
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function assertNothingLeft(rig: CliRig, pids: readonly number[]): Promise<void> {
  for (const pid of new Set(pids))
    await eventually(`process ${pid} ends`, () => (isRunning(pid) ? undefined : true));
  assert.deepEqual(
    (await readdir(rig.folder)).filter((name) => name.startsWith("cuda-ipc")),
    [],
  );
}

describe("cuda-ipc demo", () => {
  it("shares an array between two processes and verifies every byte", async () => {
    await using rig = await CliRig.open();
    const text = await rig.ok("demo");
    assert.match(
      text,
      /^Demo: two processes share an array through the hub\nOn host \(asked for by name\)\.\n/,
    );
    assert.match(text, /producer +\d+ {2}created "demo": float32\[1048576\], 4 MiB/);
    assert.match(text, /consumer +\d+ {2}opened "demo" by name, without a copy, in /);
    assert.match(text, /consumer +\d+ {2}read every element: 4 MiB verified/);
    assert.match(text, /producer +\d+ {2}sees every change in its own memory: 4 MiB verified/);
    assert.match(text, /hub +\d+ {2}keeps 0 objects/);
    assert.match(text, /\nDone: every byte was verified, in .+\.\n$/);
    assert.equal(new Set(pidsIn(text)).size, 3);
    await assertNothingLeft(rig, pidsIn(text));
  });

  it("shares one element, and more than one piece", async () => {
    await using rig = await CliRig.open();
    assert.match(await rig.ok("demo", "share", "-n", "1"), /float32\[1\], 4 bytes/);
    assert.match(await rig.ok("demo", "--elements", "3000001"), /float32\[3000001\]/);
  });

  it("shows that an array outlives its producer and the hub", async () => {
    await using rig = await CliRig.open();
    const text = await rig.ok("demo", "crash", "--elements", "100000");
    const steps = text.split("\n").map((line) => line.replace(/ +\d+ +/, ": ").trim());
    const at = (beginning: string) => steps.findIndex((step) => step.startsWith(beginning));
    assert.ok(at("producer: killed by SIGKILL") > 0);
    assert.ok(at("consumer: read every element") > at("producer: killed by SIGKILL"));
    assert.ok(at("latecomer: opened") > at("hub: noticed within"));
    assert.match(steps[at("hub: noticed within")] ?? "", /keeps 1 object/);
    const hubKilled = at("hub: killed by SIGKILL");
    const backAgain = at("hub: started by a client; all clients reconnected");
    assert.ok(hubKilled > at("latecomer: read every element") && backAgain > hubKilled);
    assert.match(steps[backAgain] ?? "", /1 object and 2 leases as before$/);
    assert.ok(at('demo: opened "demo" by name') > backAgain);
    const reads = steps.flatMap((step, index) =>
      /: read every element/.test(step) ? [index] : [],
    );
    assert.equal(reads.length, 4, "two readers read after each of the two");
    assert.ok((reads[2] ?? 0) > backAgain && at("hub: keeps 0 objects") > (reads[3] ?? 0));
    assert.equal(
      new Set(pidsIn(text)).size,
      6,
      "a producer, two readers, two hubs and the demo itself",
    );
    await assertNothingLeft(rig, pidsIn(text));
  });

  it("does not touch the user's own hub", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using array = await hub.create("demo", { dtype: "int8", shape: [3] });
    await array.publish();
    await rig.ok("demo", "-n", "10");
    assert.deepEqual(
      (await hub.list()).map(({ name }) => name),
      ["demo"],
    );
  });

  it("fails if the device does not exist", async () => {
    await using rig = await CliRig.open();
    await rig.fails("INVALID_DEVICE", "demo", "--device", "gpu");
    const { code, stderr } = await rig.run("demo", "--device", "cuda:99");
    assert.equal(code, 1);
    assert.match(stderr, /^error\[(DRIVER_NOT_FOUND|DEVICE_NOT_FOUND|DRIVER_TOO_OLD)\]/);
    await assertNothingLeft(rig, []);
  });

  it("fails for more elements than fit in memory", async () => {
    await using rig = await CliRig.open();
    assert.match(
      await rig.fails("OUT_OF_MEMORY", "demo", "--elements", String(2 ** 40)),
      /The producer failed/,
    );
    await assertNothingLeft(rig, []);
  });

  it("works with a long path for temporary files", async () => {
    await using rig = await CliRig.open();
    const long = rig.path("x".repeat(100));
    await mkdir(long);
    rig.env.TMPDIR = long;
    await rig.ok("demo", "--elements", "10");
    assert.deepEqual(await readdir(long), []);
  });

  it("cleans up after Ctrl-C", async () => {
    await using rig = await CliRig.open();
    const { child, outcome } = rig.start("demo", "--elements", "200000000");
    assert.ok(child.stdout !== null);
    await once(createInterface({ input: child.stdout }), "line");
    child.kill("SIGINT");
    const { code, stdout, stderr } = await outcome;
    assert.deepEqual([code, stderr], [130, "Interrupted.\n"]);
    await assertNothingLeft(rig, pidsIn(stdout));
  });
});
