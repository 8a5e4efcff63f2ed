import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { gpuNames } from "../../../../src/cli/completion/gpu-names.js";
import { TestFolder } from "../../../support/test-folder.js";

describe("gpuNames", () => {
  it("counts the GPUs that CUDA would find", () => {
    using folder = new TestFolder();
    assert.deepEqual(gpuNames({}, folder.path), []);
    for (const name of ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"])
      writeFileSync(folder.file(name), "");
    const found = (visible: string) => gpuNames({ CUDA_VISIBLE_DEVICES: visible }, folder.path);
    assert.deepEqual(gpuNames({}, folder.path), ["cuda:0", "cuda:1"]);
    assert.deepEqual(found("1"), ["cuda:0"]);
    assert.deepEqual(found("GPU-8f3a,GPU-1b2c"), ["cuda:0", "cuda:1"]);
    assert.deepEqual(found(""), []);
    assert.deepEqual(found("0,1,2,3"), ["cuda:0", "cuda:1"]);
  });
});
