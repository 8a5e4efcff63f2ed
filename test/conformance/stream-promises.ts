import assert from "node:assert/strict";
import { it } from "node:test";
import { hasCode } from "../../src/base/errors.js";
import type { FillPattern } from "../../src/driver/gpu-driver.js";
import { noise } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";

const MiB = 1024 * 1024;

export function streamPromises({ rig }: Subject): void {
  it("is idle when new and when its work is done", async () => {
    const stream = rig().stream();
    assert.equal(rig().driver.isIdle(stream), true);
    rig().driver.fill(stream, rig().buffer(MiB).pointer, { elementBytes: 1, value: 7 }, MiB);
    await rig().done(stream);
    assert.equal(rig().driver.isIdle(stream), true);
  });

  it("copies any range of bytes to the device and back", async () => {
    const { driver } = rig();
    const { pointer, byteLength } = rig().buffer(MiB);
    const before = noise(byteLength, 1);
    await rig().write(pointer, before);
    const stream = rig().stream();
    const from = rig().staging(1000);
    from.bytes.set(noise(1000, 2));
    driver.copyToDevice(stream, pointer + 333n, from.address + 1n, 777);
    await rig().done(stream);
    const expected = Uint8Array.from(before);
    expected.set(from.bytes.subarray(1, 778), 333);
    assert.deepEqual(await rig().read(pointer, byteLength), expected);
  });

  it("copies large memory in order with the work around it", async () => {
    const { driver } = rig();
    const byteLength = 24 * MiB;
    const a = rig().buffer(byteLength);
    const b = rig().buffer(byteLength);
    const staging = rig().staging(byteLength);
    const stream = rig().stream();
    driver.fill(stream, a.pointer, { elementBytes: 4, value: 0x01020304 }, byteLength / 4);
    driver.copyOnDevice(stream, b.pointer, a.pointer, byteLength);
    driver.fill(stream, a.pointer, { elementBytes: 4, value: 0xffffffff }, byteLength / 4);
    driver.copyToHost(stream, staging.address, b.pointer, byteLength);
    driver.fill(stream, b.pointer, { elementBytes: 1, value: 0 }, byteLength);
    await rig().done(stream);
    const words = new Uint32Array(staging.bytes.buffer, staging.bytes.byteOffset, byteLength / 4);
    assert.equal(
      words.findIndex((word) => word !== 0x01020304),
      -1,
    );
    const after = await rig().read(b.pointer, byteLength);
    assert.equal(
      after.findIndex((byte) => byte !== 0),
      -1,
    );
  });

  const patterns: readonly FillPattern[] = [
    { elementBytes: 1, value: 0xab },
    { elementBytes: 2, value: 0xabcd },
    { elementBytes: 4, value: 0xdeadbeef },
    { elementBytes: 2, value: 0 },
    { elementBytes: 4, value: 0 },
  ];
  for (const pattern of patterns) {
    it(`fills with ${pattern.elementBytes}-byte elements of 0x${pattern.value.toString(16)} and touches nothing else`, async () => {
      const { pointer, byteLength } = rig().buffer(MiB);
      const before = noise(byteLength, 6);
      await rig().write(pointer, before);
      const stream = rig().stream();
      // More than one block of the pattern, and not a multiple of it.
      const count = 70_001;
      const start = 4 * pattern.elementBytes;
      rig().driver.fill(stream, pointer + BigInt(start), pattern, count);
      await rig().done(stream);
      const expected = Uint8Array.from(before);
      const view = new DataView(expected.buffer);
      for (let i = 0; i < count; i += 1) {
        const offset = start + i * pattern.elementBytes;
        if (pattern.elementBytes === 1) view.setUint8(offset, pattern.value);
        else if (pattern.elementBytes === 2) view.setUint16(offset, pattern.value, true);
        else view.setUint32(offset, pattern.value, true);
      }
      assert.deepEqual(await rig().read(pointer, byteLength), expected);
    });
  }

  it("does nothing for 0 bytes", async () => {
    const { driver } = rig();
    const { pointer } = rig().buffer(1);
    const staging = rig().staging(1);
    const stream = rig().stream();
    driver.copyToDevice(stream, pointer, staging.address, 0);
    driver.copyToHost(stream, staging.address, pointer, 0);
    driver.copyOnDevice(stream, pointer, pointer, 0);
    driver.fill(stream, pointer, { elementBytes: 1, value: 1 }, 0);
    assert.equal(driver.isIdle(stream), true);
  });

  it("refuses impossible arguments with RangeError", () => {
    const { driver } = rig();
    const { pointer } = rig().buffer(1);
    const stream = rig().stream();
    const wrong = [
      () => driver.fill(stream, pointer, { elementBytes: 1, value: 256 }, 1),
      () => driver.fill(stream, pointer, { elementBytes: 2, value: -1 }, 1),
      () => driver.fill(stream, pointer + 1n, { elementBytes: 2, value: 0 }, 1),
      () => driver.fill(stream, pointer + 2n, { elementBytes: 4, value: 0 }, 1),
      () => driver.fill(stream, pointer, { elementBytes: 4, value: 0 }, -1),
      () => driver.copyOnDevice(stream, pointer, pointer, -1),
      () => driver.waitWord(stream, pointer + 4n, 0n),
      () => driver.writeWord(stream, pointer + 4n, 0n),
    ];
    for (const attempt of wrong) assert.throws(attempt, RangeError, attempt.toString());
  });

  it("refuses to copy beyond the end of a mapping, and still works", async () => {
    const { driver } = rig();
    const { pointer, byteLength } = rig().buffer(1);
    const staging = rig().staging(byteLength + 64);
    const stream = rig().stream();
    assert.throws(
      () => driver.copyToDevice(stream, pointer, staging.address, byteLength + 64),
      RangeError,
    );
    assert.throws(
      () => driver.copyToHost(stream, staging.address, pointer + 64n, byteLength),
      RangeError,
    );
    assert.throws(
      () => driver.fill(stream, pointer, { elementBytes: 2, value: 0 }, byteLength / 2 + 1),
      RangeError,
    );
    await rig().done(stream);
    await rig().write(pointer, noise(64, 8));
    assert.deepEqual(await rig().read(pointer, 64), noise(64, 8));
  });

  it("refuses a stream that was destroyed with CLOSED", () => {
    const { driver } = rig();
    const stream = driver.createStream(0);
    driver.destroyStream(stream);
    assert.throws(
      () => driver.isIdle(stream),
      (error) => hasCode(error, "CLOSED"),
    );
    assert.throws(
      () => driver.destroyStream(stream),
      (error) => hasCode(error, "CLOSED"),
    );
  });
}
