/** Runs the tests of Python's GPU memory on the libcuda that is written in C. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { GPU_TESTS, noPytest, runPytest } from "../../support/run-pytest.js";
import { findCudaHeader } from "../../unit/ffi/cuda-header.js";

const header = findCudaHeader();

test("the tests of GPU memory in Python pass on a libcuda in C", {
  skip:
    noPytest || (typeof header === "string" && process.env.REQUIRE_CUDA_HEADER !== "1" && header),
}, async () => {
  if (typeof header === "string") assert.fail(header);
  const folder = mkdtempSync(join(tmpdir(), "libcuda-in-c-"));
  try {
    const library = join(folder, "libcuda.so.1");
    header.compile("test/conformance/libcuda-in-c/libcuda.c", library, ["-shared", "-fPIC", "-O1"]);
    const said = await runPytest(GPU_TESTS, {
      LD_LIBRARY_PATH: folder,
      LIBCUDA_IN_C: "1",
    });
    assert.match(said, /\d+ passed/);
    assert.doesNotMatch(said, /skipped/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
