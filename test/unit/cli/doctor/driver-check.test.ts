import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { checkDriver } from "../../../../src/cli/doctor/driver-check.js";
import { surroundingsOf } from "./made-surroundings.js";

const kernel = {
  "/proc/driver/nvidia/version":
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release\n",
};

function absent(): string[] {
  throw new CudaIpcError("DRIVER_NOT_FOUND", "Cannot open the CUDA driver, tried libcuda.so.1");
}

describe("checkDriver", () => {
  it("prints the library, its version and the number of GPUs", (t) => {
    const files = {
      ...kernel,
      "/proc/self/maps": "7f00-7f01 r-xp 0 08:01 9   /usr/lib/libcuda.so.580.159.04\n",
    };
    const { check, gpus } = checkDriver(surroundingsOf(t, { files }), () => ["cuda:0", "cuda:1"]);
    assert.equal(check.detail, "/usr/lib/libcuda.so.580.159.04, version 580.159.04, 2 GPUs");
    assert.deepEqual([check.state, gpus], ["ok", ["cuda:0", "cuda:1"]]);
  });

  it("distinguishes a container without the library from a machine without a driver", (t) => {
    const hidden = checkDriver(surroundingsOf(t, { files: kernel }), absent).check;
    assert.deepEqual([hidden.state, hidden.toDo?.includes("--gpus all")], ["missing", true]);
    const none = checkDriver(surroundingsOf(t, {}), absent).check;
    assert.deepEqual([none.state, none.toDo?.includes("Install")], ["missing", true]);
  });
});
