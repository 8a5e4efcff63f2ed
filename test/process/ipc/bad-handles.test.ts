/** Bad handles on the host device, and on the libcuda in C of the conformance suite. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, it } from "node:test";
import { fileURLToPath } from "node:url";
import { createCudaDriver } from "../../../src/driver/cuda/cuda-driver.js";
import { koffi } from "../../../src/ffi/koffi.js";
import { findCudaHeader } from "../../unit/ffi/cuda-header.js";
import { describeBadHandles } from "./describe-bad-handles.js";

describeBadHandles({ device: "host" });

const source = fileURLToPath(
  new URL("../../../../test/conformance/libcuda-in-c/libcuda.c", import.meta.url),
);
const header = findCudaHeader();

if (typeof header === "string") {
  const skip = process.env.REQUIRE_CUDA_HEADER === "1" ? false : header;
  it("handles that open nothing on a libcuda in C", { skip }, () => assert.fail(header));
} else {
  const folder = mkdtempSync(join(tmpdir(), "libcuda-in-c-"));
  after(() => rmSync(folder, { recursive: true }));
  const library = join(folder, "libcuda.so.1");
  header.compile(source, library, ["-shared", "-fPIC", "-O1"]);
  const openDriver = () => createCudaDriver({ load: () => koffi().load(library) });
  // WHY once before any test: this libcuda opens files for the life of the process, which are no
  // leak of a test.
  openDriver().close();
  describeBadHandles({
    device: "cuda:0",
    openDriver,
    env: { LD_LIBRARY_PATH: folder },
    reusesHandles: true,
  });
}
