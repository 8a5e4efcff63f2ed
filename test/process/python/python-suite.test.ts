/**
 * Runs the tests of the Python package (python/tests), with Node on the other side. Those of GPU
 * memory run on the libcuda that is written in C. `python-services.test.ts` runs the rest.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { GPU_TESTS, noPytest, runPytest } from "../../support/run-pytest.js";
import { findCudaHeader } from "../../unit/ffi/cuda-header.js";
import { SERVICES } from "./python-parts.js";

const header = findCudaHeader();

test("the tests of the Python package pass", { skip: noPytest, timeout: 580_000 }, async () => {
  const others = SERVICES.map((path) => `--ignore=${path}`);
  assert.match(await runPytest(["python", ...others]), /\d+ passed/);
});

test("those of GPU memory pass on a libcuda in C", {
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
