import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { nextGeneration } from "../../../../src/base/generation.js";
import { limits } from "../../../../src/base/limits.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import {
  decodeHostHandle,
  encodeHostHandle,
  type HostHandle,
} from "../../../../src/driver/host/host-handle.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { until } from "../../../support/until.js";

const handle: HostHandle = {
  kind: "event",
  slot: 1023,
  pid: 4_194_304,
  fd: 7,
  pidNamespace: 2 ** 32 - 1,
  startTicks: 2 ** 40,
  fileNumber: 2 ** 50 + 1,
  generation: 12,
  byteLength: 65536,
  bootId: "01234567-89ab-cdef-0123-456789abcdef",
};

describe("a handle of the host device", () => {
  it("is decoded to what was encoded, and only as its own kind", () => {
    const bytes = encodeHostHandle(handle);
    assert.equal(bytes.byteLength, 64);
    assert.deepEqual(decodeHostHandle(bytes, "event"), handle);
    assert.equal(decodeHostHandle(bytes, "memory"), undefined);
    const memory = { ...handle, kind: "memory", slot: 0, generation: 0 } as const;
    assert.deepEqual(decodeHostHandle(encodeHostHandle(memory), "memory"), memory);
    assert.equal(decodeHostHandle(encodeHostHandle({ ...memory, slot: 1 }), "memory"), undefined);
  });

  it("is refused if magic, version, kind or length differ, or a number is not exact", () => {
    const bytes = encodeHostHandle(handle);
    for (const at of [0, 3, 4, 5, 23, 31, 39]) {
      const wrong = Uint8Array.from(bytes);
      wrong[at] = 0xff;
      assert.equal(decodeHostHandle(wrong, "event"), undefined, `byte ${at}`);
    }
    assert.equal(decodeHostHandle(bytes.subarray(1), "event"), undefined);
  });
});

describe("generations", () => {
  it("grow from one to the next", () => {
    const numbers = Array.from({ length: 1000 }, nextGeneration);
    assert.ok(numbers.every((number, index) => index === 0 || number > (numbers[index - 1] ?? 0)));
    assert.ok(numbers.every(Number.isSafeInteger));
  });
});

describe("the host driver's events", () => {
  checkLeaks();

  it("are refused beyond the limit, and their arena closes with the last", () => {
    const driver = createHostDriver();
    const events = Array.from({ length: limits.hostEventsMax }, () => driver.createEvent(0));
    assert.throws(
      () => driver.createEvent(0),
      (error) => hasCode(error, "LIMIT_EXCEEDED"),
    );
    for (const event of events) driver.destroyEvent(event);
    driver.destroyEvent(driver.createEvent(0));
    driver.close();
  });

  it("complete in any order of recordings, and a recording waits for the earlier one in its word", async () => {
    const driver = createHostDriver();
    const staging = driver.allocateStaging(0, 64);
    const words = new BigInt64Array(staging.bytes.buffer, staging.bytes.byteOffset, 8);
    const [held, free, waiter] = [
      driver.createStream(0),
      driver.createStream(0),
      driver.createStream(0),
    ];
    const event = driver.createEvent(0);
    driver.waitWord(held, staging.address, 1n);
    driver.recordEvent(event, held);
    driver.waitEvent(waiter, event);
    for (let i = 0; i < 5; i += 1) driver.recordEvent(event, free);
    assert.deepEqual([driver.isEventDone(event), driver.isIdle(waiter)], [true, false]);
    driver.recordEvent(event, free);
    assert.deepEqual([driver.isEventDone(event), driver.isIdle(waiter)], [false, false]);
    Atomics.store(words, 0, 1n);
    await until("all is done", () => [held, free, waiter].every((stream) => driver.isIdle(stream)));
    assert.equal(driver.isEventDone(event), true);
    driver.destroyEvent(event);
    for (const stream of [held, free, waiter]) driver.destroyStream(stream);
    driver.freeStaging(staging);
    driver.close();
  });

  it("fail only the streams that wait for them if they are destroyed too early", async () => {
    const driver = createHostDriver();
    const staging = driver.allocateStaging(0, 64);
    const [held, waiter] = [driver.createStream(0), driver.createStream(0)];
    const event = driver.createEvent(0);
    driver.waitWord(held, staging.address, 1n);
    driver.recordEvent(event, held);
    driver.waitEvent(waiter, event);
    driver.destroyEvent(event);
    assert.throws(
      () => driver.isIdle(waiter),
      (error) => hasCode(error, "CLOSED"),
    );
    new BigInt64Array(staging.bytes.buffer, staging.bytes.byteOffset, 1)[0] = 1n;
    await until("the recording stream is idle", () => driver.isIdle(held));
    for (const stream of [held, waiter]) driver.destroyStream(stream);
    driver.freeStaging(staging);
    driver.close();
  });
});

describe("the host driver's memory with a handle", () => {
  checkLeaks();

  it("is refused beyond the available memory, and leaves nothing behind", () => {
    const driver = createHostDriver();
    assert.throws(
      () => driver.allocateLegacy(0, 2 ** 50),
      (error) => hasCode(error, "OUT_OF_MEMORY"),
    );
    driver.close();
  });
});
