import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../../src/base/errors.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import type { HostOperation, StepResult } from "../../../../src/driver/host/host-operations.js";
import { HostStream } from "../../../../src/driver/host/host-stream.js";

const MiB = 1024 * 1024;

/** An operation that returns these results in turn, and records each step. */
function scripted(
  log: string[],
  name: string,
  results: readonly StepResult[],
  byteLength = 8,
): HostOperation {
  let next = 0;
  return {
    byteLength,
    step() {
      const result = results[Math.min(next, results.length - 1)] ?? "done";
      next += 1;
      log.push(`${name} ${result}`);
      return result;
    },
  };
}

async function finished(stream: HostStream): Promise<void> {
  const end = performance.now() + 30_000;
  while (!stream.isIdle()) {
    assert.ok(performance.now() < end, "the stream did not become idle");
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("HostStream", () => {
  it("does small work on an idle stream within the call", () => {
    const log: string[] = [];
    new HostStream().enqueue(scripted(log, "small", ["done"]));
    assert.deepEqual(log, ["small done"]);
  });

  it("runs large work in steps on the event loop, and finishes it without polling", async () => {
    const log: string[] = [];
    new HostStream().enqueue(scripted(log, "large", ["more", "more", "done"], 12 * MiB));
    assert.deepEqual(log, []);
    let turns = 0;
    while (log.length < 3) {
      const before = log.length;
      await new Promise((resolve) => setImmediate(resolve));
      assert.ok(log.length - before <= 1, "more than one step in one turn of the event loop");
      turns += 1;
      assert.ok(turns < 1000);
    }
  });

  it("keeps the order if small work follows a wait", async () => {
    const log: string[] = [];
    const stream = new HostStream();
    stream.enqueue(scripted(log, "a", ["waiting", "waiting", "done"]));
    stream.enqueue(scripted(log, "b", ["done"]));
    stream.enqueue(scripted(log, "c", ["done"]));
    await finished(stream);
    assert.deepEqual(
      log.filter((line) => line.endsWith("done")),
      ["a done", "b done", "c done"],
    );
  });

  it("makes progress by polling alone", () => {
    const stream = new HostStream();
    stream.enqueue(scripted([], "large", ["more", "more", "done"], 12 * MiB));
    let asked = 0;
    while (!stream.isIdle()) asked += 1;
    assert.equal(asked, 2);
  });

  it("continues by itself after a long wait", async () => {
    const stream = new HostStream();
    let open = false;
    let done = false;
    stream.enqueue({ byteLength: 8, step: () => (open ? "done" : "waiting") });
    stream.enqueue({
      byteLength: 8,
      step() {
        done = true;
        return "done";
      },
    });
    // Longer than the polling by setImmediate, so that the later timers must notice.
    const until = performance.now() + 50;
    while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(done, false);
    open = true;
    const end = performance.now() + 30_000;
    while (!done) {
      assert.ok(performance.now() < end, "the wait was never looked at again");
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  });

  it("throws the error of a failed operation from then on, and runs nothing more", () => {
    const stream = new HostStream();
    const log: string[] = [];
    const fail: HostOperation = {
      byteLength: MiB,
      step() {
        throw new RangeError("gone");
      },
    };
    stream.enqueue(fail);
    stream.enqueue(scripted(log, "later", ["done"]));
    assert.throws(() => stream.isIdle(), /^RangeError: gone$/);
    assert.throws(() => stream.isIdle(), /^RangeError: gone$/);
    assert.throws(() => stream.enqueue(scripted(log, "later", ["done"])), /^RangeError: gone$/);
    assert.deepEqual(log, []);
  });

  it("drops a pending wait when it is destroyed", async () => {
    const log: string[] = [];
    const stream = new HostStream();
    stream.enqueue(scripted(log, "wait", ["waiting"]));
    stream.destroy();
    const steps = log.length;
    for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setTimeout(resolve, 1));
    assert.equal(log.length, steps);
    assert.throws(
      () => stream.isIdle(),
      (error) => hasCode(error, "CLOSED"),
    );
  });

  it("keeps the process alive for runnable work, and not for a wait", () => {
    const actor = fileURLToPath(new URL("./actors/pending-work.js", import.meta.url));
    const run = (what: string) =>
      spawnSync(process.execPath, [actor, what], { encoding: "utf8", timeout: 60_000 });
    assert.deepEqual([run("wait").status, run("wait").stdout], [0, "false\n"]);
    assert.deepEqual([run("copy").status, run("copy").stdout], [0, "true\n"]);
  });
});

describe("the host driver's streams", () => {
  it("turn memory that was unmapped too early into an error", async () => {
    const driver = createHostDriver();
    const memory = driver.createMemory(0, 16 * MiB);
    const pointer = driver.mapMemory(memory, "read-write");
    const stream = driver.createStream(0);
    driver.fill(stream, pointer, { elementBytes: 4, value: 1 }, 4 * MiB);
    driver.unmapMemory(0, pointer);
    assert.throws(() => driver.isIdle(stream), RangeError);
    driver.releaseMemory(memory);
    driver.close();
  });

  it("turn a word that was unregistered too early into an error", () => {
    const driver = createHostDriver();
    const staging = driver.allocateStaging(0, 4096);
    const stream = driver.createStream(0);
    driver.waitWord(stream, staging.address, 1n);
    assert.equal(driver.isIdle(stream), false);
    driver.freeStaging(staging);
    assert.throws(() => driver.isIdle(stream), RangeError);
    driver.close();
  });

  it("refuse addresses that the driver never handed out", () => {
    const driver = createHostDriver();
    const staging = driver.allocateStaging(0, 4096);
    const stream = driver.createStream(0);
    const nowhere = 0x10_0000n;
    for (const attempt of [
      () => driver.copyToDevice(stream, nowhere, staging.address, 8),
      () => driver.copyToHost(stream, staging.address, nowhere, 8),
      () => driver.copyOnDevice(stream, staging.address, staging.address + 4092n, 8),
      () => driver.fill(stream, nowhere, { elementBytes: 1, value: 0 }, 8),
      () => driver.waitWord(stream, nowhere, 0n),
      () => driver.writeWord(stream, nowhere, 0n),
      () => driver.cpuAddress(nowhere),
    ]) {
      assert.throws(attempt, RangeError, attempt.toString());
    }
    driver.freeStaging(staging);
    driver.close();
  });

  it("stop when the driver is closed", () => {
    const driver = createHostDriver();
    const staging = driver.allocateStaging(0, 4096);
    const stream = driver.createStream(0);
    driver.waitWord(stream, staging.address, 1n);
    driver.freeStaging(staging);
    driver.close();
    assert.throws(
      () => driver.isIdle(stream),
      (error) => hasCode(error, "CLOSED"),
    );
  });
});
