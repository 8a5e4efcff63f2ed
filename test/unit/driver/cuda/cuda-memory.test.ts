import assert from "node:assert/strict";
import { openSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { CudaError } from "../../../../src/base/errors.js";
import { cuDeviceAttribute } from "../../../../src/ffi/cuda-constants.js";
import { OwnedFd } from "../../../../src/os/owned-fd.js";
import { failing, openFake } from "./fake-libcuda.js";

const MiB = 1024 * 1024;
const O_CLOEXEC = 0o2000000;

function withFd<T>(use: (fd: OwnedFd) => T): T {
  const fd = new OwnedFd(openSync("/dev/null", "r"));
  try {
    return use(fd);
  } finally {
    fd.close();
  }
}

function assertFails(attempt: () => unknown, code: string, message: string): void {
  assert.throws(attempt, (error: CudaError) => {
    assert.equal(error.code, code);
    assert.equal(error.message, message);
    return true;
  });
}

describe("device memory of the CUDA driver", () => {
  for (const call of ["cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"]) {
    it(`undoes a mapping if ${call} fails`, () => {
      const { fake, driver } = openFake(failing(call, 2));
      const memory = driver.createMemory(0, 2 * MiB);
      assert.throws(
        () => driver.mapMemory(memory, "read"),
        (error: CudaError) => error.code === "OUT_OF_MEMORY" && error.call === call,
      );
      assert.deepEqual([fake.live.reservations, fake.live.mappings, fake.live.memories], [0, 0, 1]);
      driver.releaseMemory(memory);
      assert.equal(fake.live.memories, 0);
    });
  }

  it("frees the addresses although unmapping failed", () => {
    const { fake, driver } = openFake(failing("cuMemUnmap", 999));
    const pointer = driver.mapMemory(driver.createMemory(0, 2 * MiB), "read");
    assert.throws(
      () => driver.unmapMemory(0, pointer),
      (error: CudaError) => error.call === "cuMemUnmap",
    );
    assert.equal(fake.live.reservations, 0);
    assert.throws(() => driver.unmapMemory(0, pointer), RangeError);
  });

  it("names the size that a descriptor claimed if mapping fails", () => {
    const { driver } = openFake(failing("cuMemMap", 1));
    const imported = withFd((fd) => driver.importMemory(0, fd, 4 * MiB));
    assertFails(
      () => driver.mapMemory(imported, "read"),
      "INVALID_DESCRIPTOR",
      "Cannot map 4194304 bytes on cuda:0, the size that the descriptor claims: cuMemMap failed with CUDA_ERROR_INVALID_VALUE (1)",
    );
    const created = driver.createMemory(0, 4 * MiB);
    assertFails(
      () => driver.mapMemory(created, "read"),
      "CUDA_ERROR",
      "Cannot map 4194304 bytes on cuda:0: cuMemMap failed with CUDA_ERROR_INVALID_VALUE (1)",
    );
  });

  it("blames the descriptor for a failed import, unless the device cannot import at all", () => {
    const attribute =
      cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    const call = "cuMemImportFromShareableHandle";
    const cases: readonly [status: number, supported: number, code: string][] = [
      [1, 1, "INVALID_DESCRIPTOR"],
      [999, 1, "INVALID_DESCRIPTOR"],
      [801, 1, "INVALID_DESCRIPTOR"],
      [801, 0, "UNSUPPORTED"],
      [2, 1, "OUT_OF_MEMORY"],
      [719, 1, "DEVICE_LOST"],
    ];
    for (const [status, supported, code] of cases) {
      const { fake, driver } = openFake({
        ...failing(call, status),
        attributes: { [attribute]: supported },
      });
      withFd((fd) => {
        assert.throws(
          () => driver.importMemory(0, fd, 2 * MiB),
          (error: CudaError) => error.code === code,
          code,
        );
        assert.equal(fd.closed, false);
      });
      assert.equal(fake.live.memories, 0);
    }
  });

  it("refuses host memory behind a descriptor, and releases it", () => {
    for (const importedLocationType of [2, 3, 4]) {
      const { fake, driver } = openFake({ importedLocationType });
      withFd((fd) => {
        assert.throws(
          () => driver.importMemory(0, fd, 2 * MiB),
          (error: CudaError) => error.code === "INVALID_DESCRIPTOR",
        );
      });
      assert.equal(fake.live.memories, 0);
    }
  });

  it("accepts memory if the driver does not tell where it lies", () => {
    const { fake, driver } = openFake(failing("cuMemGetAllocationPropertiesFromHandle", 801));
    withFd((fd) => driver.importMemory(0, fd, 2 * MiB));
    assert.equal(fake.live.memories, 1);
  });

  it("refuses an impossible claimed size before it calls the driver", () => {
    const { fake, driver } = openFake();
    for (const claim of [
      0,
      -1,
      2 * MiB + 1,
      0.5,
      Number.NaN,
      Number.POSITIVE_INFINITY,
      2 ** 60 + 1,
    ]) {
      withFd((fd) => {
        assert.throws(
          () => driver.importMemory(0, fd, claim),
          (error: CudaError) => error.code === "INVALID_DESCRIPTOR",
        );
      });
    }
    assert.equal(fake.calls.includes("cuMemImportFromShareableHandle"), false);
  });

  it("sets close-on-exec if the driver did not", () => {
    const { driver } = openFake();
    const fd = driver.exportMemory(driver.createMemory(0, 2 * MiB));
    const flags = /^flags:\s+(\d+)$/m.exec(
      readFileSync(`/proc/self/fdinfo/${fd.number}`, "utf8"),
    )?.[1];
    fd.close();
    assert.notEqual(Number.parseInt(flags ?? "0", 8) & O_CLOEXEC, 0);
  });

  const statuses: readonly [status: number, code: string][] = [
    [2, "OUT_OF_MEMORY"],
    [36, "DRIVER_TOO_OLD"],
    [101, "DEVICE_NOT_FOUND"],
    [214, "DEVICE_LOST"],
    [226, "DEVICE_LOST"],
    [700, "DEVICE_LOST"],
    [709, "DEVICE_LOST"],
    [719, "DEVICE_LOST"],
    [800, "UNSUPPORTED"],
    [801, "UNSUPPORTED"],
    [805, "MPS_UNAVAILABLE"],
    [806, "DEVICE_LOST"],
    [807, "MPS_UNAVAILABLE"],
    [808, "MPS_UNAVAILABLE"],
    [809, "MPS_UNAVAILABLE"],
    [810, "DEVICE_LOST"],
    [1, "CUDA_ERROR"],
    [201, "CUDA_ERROR"],
    [999, "CUDA_ERROR"],
  ];
  for (const [status, code] of statuses) {
    it(`turns status ${status} into ${code}`, () => {
      const { driver } = openFake(failing("cuMemCreate", status));
      assert.throws(
        () => driver.createMemory(0, 2 * MiB),
        (error: CudaError) => error.code === code && error.status === status,
      );
    });
  }
});
