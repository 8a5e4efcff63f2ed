/** Pools on the libcuda in C of the conformance suite, in all processes. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, it } from "node:test";
import { fileURLToPath } from "node:url";
import { createCudaDriver } from "../../../src/driver/cuda/cuda-driver.js";
import { koffi } from "../../../src/ffi/koffi.js";
import { findCudaHeader } from "../../unit/ffi/cuda-header.js";
import { describePools } from "./describe-pools.js";

const source = fileURLToPath(
  new URL("../../../../test/conformance/libcuda-in-c/libcuda.c", import.meta.url),
);
const header = findCudaHeader();

if (typeof header === "string") {
  const skip = process.env.REQUIRE_CUDA_HEADER === "1" ? false : header;
  it("memory of pools between processes on a libcuda in C", { skip }, () => assert.fail(header));
} else {
  const folder = mkdtempSync(join(tmpdir(), "libcuda-in-c-"));
  after(() => rmSync(folder, { recursive: true }));
  const library = join(folder, "libcuda.so.1");
  header.compile(source, library, ["-shared", "-fPIC", "-O1"]);
  // WHY once before any test: this libcuda opens files for the life of the process, which are no
  // leak of a test.
  const openDriver = () => createCudaDriver({ load: () => koffi().load(library) });
  openDriver().close();
  describePools({ device: "cuda:0", openDriver, env: { LD_LIBRARY_PATH: folder } });
}
