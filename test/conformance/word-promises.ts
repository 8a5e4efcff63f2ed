import assert from "node:assert/strict";
import { it } from "node:test";
import { hasCode } from "../../src/base/errors.js";
import type { DriverStream } from "../../src/driver/gpu-driver.js";
import { type ConformanceRig, turns, until, type Words } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";

const INT64_MAX = 2n ** 63n - 1n;

export function wordPromises({ rig }: Subject): void {
  it("writes a word when the work before it is done", async () => {
    const words = rig().words();
    const stream = rig().stream();
    rig().driver.fill(
      stream,
      rig().buffer(1 << 20).pointer,
      { elementBytes: 1, value: 1 },
      1 << 20,
    );
    rig().driver.writeWord(stream, words.pointer + 16n, 5n);
    await rig().done(stream);
    assert.deepEqual([...words.cpu.subarray(0, 4)], [0n, 0n, 5n, 0n]);
  });

  it("holds later work back until a stream writes the word", async () => {
    const words = rig().words();
    const [waiter, writer] = [rig().stream(), rig().stream()];
    await assertHeldBack(rig(), waiter, words, () =>
      rig().driver.writeWord(writer, words.pointer, 3n),
    );
  });

  it("holds later work back until a CPU stores the word", async () => {
    const words = rig().words();
    await assertHeldBack(rig(), rig().stream(), words, () => Atomics.store(words.cpu, 0, 3n));
  });

  it("holds later work back on words in memory of the device", async () => {
    const { driver } = rig();
    const { pointer } = rig().buffer(1);
    const [waiter, writer] = [rig().stream(), rig().stream()];
    const staging = rig().staging(8);
    staging.bytes.fill(0xee);
    driver.fill(writer, pointer, { elementBytes: 4, value: 0 }, 16);
    await rig().done(writer);
    rig().waitOn(waiter, pointer + 8n, 2n, () => driver.writeWord(writer, pointer + 8n, 2n));
    driver.copyToHost(waiter, staging.address, pointer + 8n, 8);
    await turns();
    assert.equal(driver.isIdle(waiter), false);
    driver.writeWord(writer, pointer + 8n, 2n);
    await rig().done(waiter);
    assert.deepEqual([...staging.bytes], [2, 0, 0, 0, 0, 0, 0, 0]);
  });

  it("runs several waits and writes of one call in order", async () => {
    const words = rig().words();
    const { driver } = rig();
    const stream = rig().stream();
    driver.batchWords(stream, []);
    driver.batchWords(stream, [
      { kind: "write", pointer: words.pointer, value: 1n },
      { kind: "wait", pointer: words.pointer + 8n, value: 7n },
      { kind: "wait", pointer: words.pointer, value: 1n },
      { kind: "write", pointer: words.pointer + 16n, value: -2n },
    ]);
    await turns();
    await until("the first write is done", () => Atomics.load(words.cpu, 0) === 1n);
    assert.equal(driver.isIdle(stream), false);
    assert.equal(Atomics.load(words.cpu, 2), 0n);
    Atomics.store(words.cpu, 1, 7n);
    await rig().done(stream);
    assert.deepEqual([...words.cpu.subarray(0, 3)], [1n, 7n, -2n]);
  });

  it("enqueues nothing of a batch if one wait or write is refused", () => {
    const words = rig().words("read");
    const { driver } = rig();
    const stream = rig().stream();
    const write = { kind: "write", pointer: words.pointer, value: 1n } as const;
    const wait = { kind: "wait", pointer: words.pointer + 8n, value: 7n } as const;
    assert.throws(
      () => driver.batchWords(stream, [wait, write]),
      (error) => hasCode(error, "READ_ONLY"),
    );
    assert.throws(
      () => driver.batchWords(stream, [wait, { ...wait, pointer: wait.pointer + 1n }]),
      RangeError,
    );
    assert.throws(() => driver.batchWords(stream, new Array(256).fill(wait)), RangeError);
    assert.equal(driver.isIdle(stream), true);
  });

  it("does not wait for a value that was reached", async () => {
    const words = rig().words();
    words.cpu[1] = 10n;
    const stream = rig().stream();
    rig().wait(stream, words, 1, 10n);
    rig().wait(stream, words, 1, 9n);
    rig().wait(stream, words, 1, -5n);
    await rig().done(stream);
  });

  it("compares cyclically, across the end of the range", async () => {
    const words = rig().words();
    const cases: readonly [word: bigint, value: bigint, reached: boolean][] = [
      [-(2n ** 63n), INT64_MAX, true],
      [INT64_MAX, -(2n ** 63n), false],
      [-1n, 0n, false],
      [0n, -1n, true],
      [INT64_MAX, 1n, true],
      [0n, INT64_MAX, false],
    ];
    for (const [word, value, reached] of cases) {
      const stream = rig().stream();
      Atomics.store(words.cpu, 0, word);
      rig().wait(stream, words, 0, value);
      if (reached) await rig().done(stream);
      else await turns();
      assert.equal(rig().driver.isIdle(stream), reached, `${word} against ${value}`);
      Atomics.store(words.cpu, 0, value);
      await rig().done(stream);
    }
  });

  it("accepts values beyond int64 as the same 64 bits", async () => {
    const words = rig().words();
    const stream = rig().stream();
    rig().driver.writeWord(stream, words.pointer, 2n ** 64n - 2n);
    await rig().done(stream);
    assert.equal(words.cpu[0], -2n);
  });

  it("accepts values as numbers and as bigints, also beyond safe integers", async () => {
    const words = rig().words();
    const stream = rig().stream();
    const values = [
      0,
      1,
      2 ** 32,
      Number.MAX_SAFE_INTEGER,
      2n ** 53n + 1n,
      2n ** 62n + 1n,
    ] as const;
    for (const [index, value] of values.entries()) {
      const pointer = words.pointer + BigInt(8 * index);
      rig().driver.writeWord(stream, pointer, value);
      rig().driver.waitWord(stream, pointer, value);
    }
    await rig().done(stream);
    assert.deepEqual([...words.cpu.subarray(0, values.length)], values.map(BigInt));
  });

  it("waits the same for a number and its bigint", async () => {
    const words = rig().words();
    const stream = rig().stream();
    rig().waitOn(stream, words.pointer, 5, () => Atomics.store(words.cpu, 0, 5n));
    Atomics.store(words.cpu, 0, 4n);
    await turns();
    assert.equal(rig().driver.isIdle(stream), false);
    Atomics.store(words.cpu, 0, 5n);
    await rig().done(stream);
  });

  it("waits on read-only words, and refuses to write them with READ_ONLY", async (t) => {
    if (
      rig().kind === "cuda" &&
      rig().driver.describeDevice(0).attributes.READ_ONLY_HOST_REGISTER_SUPPORTED !== 1
    ) {
      return t.skip("the device cannot register read-only memory");
    }
    const words = rig().words("read");
    await assertHeldBack(rig(), rig().stream(), words, () => Atomics.store(words.cpu, 0, 3n));
    const stream = rig().stream();
    assert.throws(
      () => rig().driver.writeWord(stream, words.pointer, 1n),
      (error) => hasCode(error, "READ_ONLY"),
    );
    await rig().done(stream);
    assert.equal(words.cpu[0], 3n);
  });

  it("refuses to write a word it wrote before, after the memory was registered read-only", async (t) => {
    if (
      rig().kind === "cuda" &&
      rig().driver.describeDevice(0).attributes.READ_ONLY_HOST_REGISTER_SUPPORTED !== 1
    ) {
      return t.skip("the device cannot register read-only memory");
    }
    const { driver } = rig();
    const words = rig().words();
    const stream = rig().stream();
    driver.writeWord(stream, words.pointer, 1n);
    driver.waitWord(stream, words.pointer, 1n);
    await rig().done(stream);
    driver.unregisterHostMemory(0, words.address);
    const pointer = driver.registerHostMemory(0, words.address, words.cpu.byteLength, "read");
    driver.waitWord(stream, pointer, 1n);
    assert.throws(
      () => driver.writeWord(stream, pointer, 2n),
      (error) => hasCode(error, "READ_ONLY"),
    );
    await rig().done(stream);
    assert.equal(words.cpu[0], 1n);
  });

  it("registers memory once", () => {
    const { driver } = rig();
    const words = rig().words();
    for (const [offset, access] of [
      [0n, "read-write"],
      [0n, "read"],
      [8n, "read-write"],
    ] as const) {
      assert.throws(
        () => driver.registerHostMemory(0, words.address + offset, 4096, access),
        RangeError,
      );
    }
    driver.unregisterHostMemory(0, words.address);
    assert.throws(() => driver.unregisterHostMemory(0, words.address), RangeError);
    driver.registerHostMemory(0, words.address, 4096, "read-write");
  });
}

/** A wait for 3 on word 0, and a copy behind it that must see what was written before the word. */
async function assertHeldBack(
  rig: ConformanceRig,
  waiter: DriverStream,
  words: Words,
  reach: () => void,
): Promise<void> {
  const { driver } = rig;
  const { pointer } = rig.buffer(64);
  const staging = rig.staging(64);
  const writer = rig.stream();
  driver.fill(writer, pointer, { elementBytes: 1, value: 1 }, 64);
  await rig.done(writer);

  rig.wait(waiter, words, 0, 3n);
  driver.copyToHost(waiter, staging.address, pointer, 64);
  await turns();
  assert.equal(driver.isIdle(waiter), false);
  driver.fill(writer, pointer, { elementBytes: 1, value: 2 }, 64);
  await rig.done(writer);
  Atomics.store(words.cpu, 0, 2n);
  await turns();
  assert.equal(driver.isIdle(waiter), false);

  reach();
  await rig.done(waiter);
  assert.deepEqual([...new Set(staging.bytes)], [2]);
}
