import assert from "node:assert/strict";
import { openSync, readFileSync } from "node:fs";
import { it } from "node:test";
import { roundUp } from "../../src/base/bytes.js";
import { hasCode } from "../../src/base/errors.js";
import { createMemoryFile } from "../../src/os/memory-file.js";
import { OwnedFd } from "../../src/os/owned-fd.js";
import { type ConformanceRig, noise } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";

const O_CLOEXEC = 0o2000000;

export function memoryPromises({ rig }: Subject): void {
  it("creates memory only in multiples of the granularity", () => {
    const { driver, granularity } = rig();
    assert.equal(rig().memory(3 * granularity).byteLength, 3 * granularity);
    for (const wrong of [0, -granularity, granularity + 1, granularity / 2, Number.NaN, 0.5]) {
      assert.throws(() => driver.createMemory(0, wrong), RangeError, String(wrong));
    }
  });

  it("refuses more memory than the device has with OUT_OF_MEMORY", () => {
    const { driver, granularity } = rig();
    const tooMuch = roundUp(driver.describeDevice(0).totalBytes * 4, granularity);
    assert.throws(
      () => driver.releaseMemory(driver.createMemory(0, tooMuch)),
      (error) => hasCode(error, "OUT_OF_MEMORY"),
    );
  });

  it("imports its own export: the same memory at another address", async () => {
    const { pointer, memory, byteLength } = rig().buffer(1);
    const second = rig().map(rig().imported(rig().exported(memory), byteLength));
    assert.notEqual(second, pointer);
    const there = noise(byteLength, 1);
    await rig().write(pointer, there);
    assert.deepEqual(await rig().read(second, byteLength), there);
    const back = noise(byteLength, 2);
    await rig().write(second, back);
    assert.deepEqual(await rig().read(pointer, byteLength), back);
  });

  it("exports descriptors that are closed on exec", () => {
    const fd = rig().exported(rig().memory(1));
    const flags = /^flags:\s+(\d+)$/m.exec(
      readFileSync(`/proc/self/fdinfo/${fd.number}`, "utf8"),
    )?.[1];
    assert.notEqual(Number.parseInt(flags ?? "0", 8) & O_CLOEXEC, 0);
  });

  it("refuses other descriptors with INVALID_DESCRIPTOR", () => {
    for (const open of [() => devNull(), () => createMemoryFile("short", 100)]) {
      const fd = rig().own(open(), (it) => it.close());
      assertInvalid(rig(), fd, rig().granularity);
    }
  });

  it("refuses a descriptor that claims more than its memory with INVALID_DESCRIPTOR", () => {
    const { granularity } = rig();
    const fd = rig().exported(rig().memory(granularity));
    assertInvalid(rig(), fd, 2 * granularity);
    assertInvalid(rig(), fd, 0);
    assertInvalid(rig(), fd, Number.NaN);
    assert.equal(fd.closed, false);
  });

  it("copies memory on write, or refuses to with UNSUPPORTED", async () => {
    const { driver } = rig();
    const { pointer, memory, byteLength } = rig().buffer(1);
    const content = noise(byteLength, 4);
    await rig().write(pointer, content);
    const imported = rig().imported(rig().exported(memory), byteLength);
    if (!driver.memoryFiles) {
      assert.throws(
        () => driver.mapMemory(imported, "copy"),
        (error) => hasCode(error, "UNSUPPORTED"),
      );
      return;
    }
    const [one, other] = [rig().map(imported, "copy"), rig().map(imported, "copy")];
    const changed = noise(byteLength, 5);
    await rig().write(one, changed);
    assert.deepEqual(await rig().read(one, byteLength), changed);
    assert.deepEqual(await rig().read(other, byteLength), content);
    assert.deepEqual(await rig().read(pointer, byteLength), content);
  });

  it("maps memory read-only, and refuses to write there with READ_ONLY", async () => {
    const { driver } = rig();
    const { pointer, memory, byteLength } = rig().buffer(1);
    const content = noise(byteLength, 3);
    await rig().write(pointer, content);
    const readOnly = rig().map(rig().imported(rig().exported(memory), byteLength), "read");
    assert.deepEqual(await rig().read(readOnly, byteLength), content);

    const stream = rig().stream();
    const staging = rig().staging(64);
    const isReadOnly = (error: unknown) => hasCode(error, "READ_ONLY");
    assert.throws(() => driver.copyToDevice(stream, readOnly, staging.address, 64), isReadOnly);
    assert.throws(() => driver.copyOnDevice(stream, readOnly, pointer, 64), isReadOnly);
    assert.throws(
      () => driver.fill(stream, readOnly, { elementBytes: 1, value: 1 }, 64),
      isReadOnly,
    );
    assert.throws(() => driver.writeWord(stream, readOnly, 1n), isReadOnly);
    await rig().done(stream);
    assert.deepEqual(await rig().read(pointer, byteLength), content);
  });

  it("keeps mappings after the handle is released", async () => {
    const { driver, granularity } = rig();
    const memory = driver.createMemory(0, granularity);
    const pointer = rig().map(memory);
    driver.releaseMemory(memory);
    const content = noise(granularity, 4);
    await rig().write(pointer, content);
    assert.deepEqual(await rig().read(pointer, granularity), content);
  });

  it("keeps memory alive by an exported descriptor alone", async () => {
    const { driver, granularity } = rig();
    const memory = driver.createMemory(0, granularity);
    const pointer = driver.mapMemory(memory, "read-write");
    const content = noise(granularity, 5);
    await rig().write(pointer, content);
    const fd = rig().exported(memory);
    driver.unmapMemory(0, pointer);
    driver.releaseMemory(memory);
    const again = rig().map(rig().imported(fd, granularity));
    assert.deepEqual(await rig().read(again, granularity), content);
  });

  it("refuses released handles and addresses that were never mapped", () => {
    const { driver, granularity } = rig();
    const memory = driver.createMemory(0, granularity);
    driver.releaseMemory(memory);
    assert.throws(
      () => driver.releaseMemory(memory),
      (error) => hasCode(error, "CLOSED"),
    );
    assert.throws(
      () => driver.mapMemory(memory, "read"),
      (error) => hasCode(error, "CLOSED"),
    );
    assert.throws(
      () => driver.exportMemory(memory),
      (error) => hasCode(error, "CLOSED"),
    );
    assert.throws(() => driver.unmapMemory(0, 0x1000n), RangeError);
    assert.throws(() => driver.unregisterHostMemory(0, 0x1000n), RangeError);
    const staging = driver.allocateStaging(0, 64);
    driver.freeStaging(staging);
    assert.throws(
      () => driver.freeStaging(staging),
      (error) => hasCode(error, "CLOSED"),
    );
  });

  it("frees a GPU's memory", async (t) => {
    if (rig().kind === "host")
      return t.skip(
        "memory files of the host are covered by the counts of descriptors and mappings",
      );
    const { driver } = rig();
    const byteLength = roundUp(512 * 1024 * 1024, rig().granularity);
    const before = driver.memoryInfo(0).freeBytes;
    for (let round = 0; round < 6; round += 1) {
      const memory = driver.createMemory(0, byteLength);
      const pointer = driver.mapMemory(memory, "read-write");
      driver.exportMemory(memory).close();
      driver.unmapMemory(0, pointer);
      driver.releaseMemory(memory);
    }
    const missing = before - driver.memoryInfo(0).freeBytes;
    assert.ok(missing < byteLength, `${missing} bytes are missing`);
  });
}

function devNull(): OwnedFd {
  return new OwnedFd(openSync("/dev/null", "r+"));
}

/** Refused at the import, or at the mapping if the driver learns the size only there. */
function assertInvalid(rig: ConformanceRig, fd: OwnedFd, byteLength: number): void {
  const before = rig.counts();
  const attempt = () => {
    const memory = rig.driver.importMemory(0, fd, byteLength);
    try {
      rig.driver.unmapMemory(0, rig.driver.mapMemory(memory, "read-write"));
    } finally {
      rig.driver.releaseMemory(memory);
    }
  };
  assert.throws(attempt, (error) => hasCode(error, "INVALID_DESCRIPTOR"));
  assert.deepEqual(rig.counts(), before);
}
