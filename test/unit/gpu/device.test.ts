import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError, hasCode } from "../../../src/base/errors.js";
import { parseDeviceName } from "../../../src/driver/device-names.js";
import type { GpuDriver } from "../../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../../src/driver/host/host-driver.js";
import { openDriver } from "../../../src/driver/open-driver.js";
import { Device } from "../../../src/gpu/device.js";
import { interceptDriver } from "../../support/intercept-driver.js";
import { checkLeaks } from "../../support/leak-check.js";

const noGpu =
  (code: "DRIVER_NOT_FOUND" | "DEVICE_NOT_FOUND" | "DRIVER_TOO_OLD") => (kind: "cuda" | "host") => {
    if (kind === "cuda") throw new CudaIpcError(code, "no driver here");
    return openDriver(kind);
  };

describe("Device.open", () => {
  checkLeaks();

  it("refuses invalid names and missing devices", () => {
    for (const name of ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "host:0", "cuda:99999", "99999"]) {
      assert.throws(
        () => Device.open(name),
        (error) => hasCode(error, "INVALID_DEVICE"),
        name,
      );
    }
  });

  it("takes a plain number for the GPU of that number", () => {
    const wanted = Array.from(["cuda", "0", "cuda:0", "7", "cuda:12"], (it) => parseDeviceName(it));
    const cuda = (ordinal: number) => ({ kind: "cuda", ordinal });
    assert.deepEqual(wanted, [cuda(0), cuda(0), cuda(0), cuda(7), cuda(12)]);
  });

  it("auto opens the host device if there is no GPU, and says so", () => {
    for (const code of ["DRIVER_NOT_FOUND", "DEVICE_NOT_FOUND"] as const) {
      using device = Device.open("auto", noGpu(code));
      assert.deepEqual(
        [device.name, device.uuid, device.reason],
        ["host", "host", "auto: no GPU (no driver here)"],
      );
    }
  });

  it("auto reports a broken driver", () => {
    assert.throws(
      () => Device.open("auto", noGpu("DRIVER_TOO_OLD")),
      (error) => hasCode(error, "DRIVER_TOO_OLD"),
    );
    assert.throws(
      () => Device.open("cuda:0", noGpu("DRIVER_NOT_FOUND")),
      (error) => hasCode(error, "DRIVER_NOT_FOUND"),
    );
  });

  it("closes the driver if the device is missing or cannot be described", () => {
    let closed = 0;
    const counting = (failing: boolean): GpuDriver =>
      interceptDriver(createHostDriver(), {
        before(call) {
          if (call === "close") closed += 1;
          if (call === "describeDevice" && failing) throw new CudaIpcError("CUDA_ERROR", "no");
        },
      });
    assert.throws(
      () => Device.openByReference({ kind: "cuda", uuid: "GPU-0" }, () => counting(false)),
      (error) => hasCode(error, "DEVICE_NOT_FOUND"),
    );
    assert.throws(
      () => Device.openByReference({ kind: "cuda", uuid: "GPU-0" }, () => counting(true)),
      (error) => hasCode(error, "CUDA_ERROR"),
    );
    assert.throws(
      () => Device.open("host", () => counting(true)),
      (error) => hasCode(error, "CUDA_ERROR"),
    );
    assert.equal(closed, 3);
  });

  it("throws CLOSED after it was closed", () => {
    const device = Device.open("host");
    device.close();
    device.close();
    assert.throws(
      () => device.memoryInfo(),
      (error) => hasCode(error, "CLOSED"),
    );
  });
});
