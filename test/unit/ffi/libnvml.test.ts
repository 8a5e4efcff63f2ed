/** The signatures of NVML, against a stand-in in C. ALONE: it loads a library. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { koffi } from "../../../src/ffi/koffi.js";
import { openLibnvml } from "../../../src/ffi/libnvml.js";
import { GpuMemory } from "../../../src/watch/gpu-memory.js";
import { TestFolder } from "../../support/test-folder.js";

const SOURCE = fileURLToPath(new URL("../../../../test/unit/ffi/nvml-in-c.c", import.meta.url));
const GiB = 1024 ** 3;

const compiler = ["cc", "gcc", "clang"].find((name) => spawnSync(name, ["-v"]).status === 0);
const skip = compiler === undefined && process.env.REQUIRE_CC !== "1" ? "no C compiler" : false;

describe("libnvml", { skip }, () => {
  it("tells a GPU's memory and processes through the functions in C", () => {
    using folder = new TestFolder();
    const path = folder.file("libnvidia-ml.so.1");
    const flags = ["-shared", "-fPIC", "-Wall", "-Werror", "-o", path, SOURCE];
    const { status, stderr } = spawnSync(compiler ?? "cc", flags, { encoding: "utf8" });
    assert.equal(status, 0, stderr);
    const gpus = new GpuMemory(() => openLibnvml(() => koffi().load(path)));
    assert.deepEqual(gpus.look(), [
      {
        uuid: "GPU-01234567-89ab-cdef-0123-456789abcdef",
        model: "NVIDIA Stand-in",
        totalBytes: 80 * GiB,
        usedBytes: 10 * GiB,
        processes: [
          { pid: 4242, bytes: 5 * GiB },
          { pid: 4243, bytes: undefined },
        ],
      },
    ]);
    assert.equal(gpus.reason, undefined);
    const nvml = openLibnvml(() => koffi().load(path));
    assert.equal(nvml.nvmlErrorString(2), "Invalid Argument");
    gpus.close();
  });
});
