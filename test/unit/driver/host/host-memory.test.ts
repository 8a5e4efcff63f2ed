import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { availableBytes } from "../../../../src/driver/host/host-capacity.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import { libc } from "../../../../src/ffi/libc.js";
import { mappedBytes } from "../../../../src/os/mapping.js";
import { createConstantFile, reopenReadOnly } from "../../../../src/os/memory-file.js";
import { OwnedFd, openFdCount } from "../../../../src/os/owned-fd.js";

describe("the host driver's memory", () => {
  it("is zero at first, and visible to the CPU without a copy", () => {
    const driver = createHostDriver();
    const memory = driver.createMemory(0, 8192);
    const pointer = driver.mapMemory(memory, "read-write");
    assert.equal(driver.cpuAddress(pointer + 100n), pointer + 100n);
    assert.throws(() => driver.cpuAddress(pointer + 8192n), RangeError);
    const staging = driver.allocateStaging(0, 8192);
    staging.bytes.fill(1);
    const stream = driver.createStream(0);
    driver.copyToHost(stream, staging.address, pointer, 8192);
    assert.deepEqual([...new Set(staging.bytes)], [0]);
    driver.freeStaging(staging);
    driver.unmapMemory(0, pointer);
    driver.releaseMemory(memory);
  });

  it("maps a read-only descriptor for reading, and refuses to map it for writing with READ_ONLY", () => {
    const driver = createHostDriver();
    const [fds, mapped] = [openFdCount(), mappedBytes()];
    const memory = driver.createMemory(0, 4096);
    const fd = driver.exportMemory(memory);
    const readOnly = reopenReadOnly(fd);
    const imported = driver.importMemory(0, readOnly, 4096);
    driver.unmapMemory(0, driver.mapMemory(imported, "read"));
    assert.throws(
      () => driver.mapMemory(imported, "read-write"),
      (error) => hasCode(error, "READ_ONLY"),
    );
    driver.releaseMemory(imported);
    driver.releaseMemory(memory);
    readOnly.close();
    fd.close();
    assert.deepEqual([openFdCount(), mappedBytes()], [fds, mapped]);
  });

  it("imports sealed constant memory for reading only", () => {
    const driver = createHostDriver();
    const fd = createConstantFile("constant", new Uint8Array(4096));
    const memory = driver.importMemory(0, fd, 4096);
    driver.unmapMemory(0, driver.mapMemory(memory, "read"));
    assert.throws(
      () => driver.mapMemory(memory, "read-write"),
      (error) => hasCode(error, "READ_ONLY"),
    );
    driver.releaseMemory(memory);
    fd.close();
  });

  it("refuses a memory file whose size is not sealed", () => {
    const driver = createHostDriver();
    const fd = new OwnedFd(libc().memfd_create("open", 3));
    libc().ftruncate(fd.number, 8192);
    assert.throws(
      () => driver.importMemory(0, fd, 4096),
      (error) => hasCode(error, "INVALID_DESCRIPTOR") && error.message.includes("sealed"),
    );
    fd.close();
  });
});

describe("availableBytes", () => {
  it("is more than 0 and at most the machine's memory", () => {
    const available = availableBytes();
    assert.ok(available > 0 && available <= createHostDriver().describeDevice(0).totalBytes);
  });
});
