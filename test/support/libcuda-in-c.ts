/** Compiles the libcuda in C of the conformance suite, for tests above the driver without a GPU. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { koffi } from "../../src/ffi/koffi.js";
import type { LoadLibrary } from "../../src/ffi/libcuda.js";
import { findCudaHeader } from "../unit/ffi/cuda-header.js";

const source = fileURLToPath(
  new URL("../../../test/conformance/libcuda-in-c/libcuda.c", import.meta.url),
);

/**
 * Returns a function that opens the library, or the reason why there is none here. Call it once per
 * file.
 */
export function compileLibcuda(): LoadLibrary | string {
  const header = existsSync(source) ? findCudaHeader() : `no ${source}`;
  if (typeof header === "string") return header;
  const folder = mkdtempSync(join(tmpdir(), "libcuda-in-c-"));
  try {
    const library = join(folder, "libcuda.so.1");
    header.compile(source, library, ["-shared", "-fPIC", "-O1"]);
    const loaded = koffi().load(library);
    return () => loaded;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
