/**
 * Runs the suite on the CUDA driver and its FFI without a GPU: libcuda is written in C here,
 * against the real cuda.h. Without a compiler or the header it is skipped, like
 * test/unit/ffi/cuda-header.test.ts.
 */
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { createCudaDriver } from "../../src/driver/cuda/cuda-driver.js";
import { koffi } from "../../src/ffi/koffi.js";
import type { SharedLibrary } from "../../src/ffi/libcuda.js";
import { findCudaHeader } from "../unit/ffi/cuda-header.js";
import { describeConformance } from "./describe-conformance.js";

const name = "conformance of the CUDA driver on a libcuda in C";
const source = fileURLToPath(
  new URL("../../../test/conformance/libcuda-in-c/libcuda.c", import.meta.url),
);
const header = existsSync(source) ? findCudaHeader() : `no ${source}`;

if (typeof header === "string") {
  it(name, { skip: process.env.REQUIRE_CUDA_HEADER === "1" ? false : header }, () =>
    assert.fail(header),
  );
} else {
  describe(name, () => {
    const folder = mkdtempSync(join(tmpdir(), "libcuda-in-c-"));
    after(() => rmSync(folder, { recursive: true }));
    const library = join(folder, "libcuda.so.1");
    header.compile(source, library, ["-shared", "-fPIC", "-O1"]);
    // The child processes of the suite open libcuda by its name.
    process.env.LD_LIBRARY_PATH = folder;
    const withoutKernels = "it runs no PTX; test/unit/driver/cuda/ptx-operations.test.ts does";
    describeConformance("the seam", () => createCudaDriver({ load: () => koffi().load(library) }), {
      withoutKernels,
    });

    const old = (): SharedLibrary => {
      const loaded = koffi().load(library);
      return {
        func(symbol, result, parameters) {
          if (symbol === "cuFuncGetParamInfo") throw new Error("as in a driver before CUDA 12.4");
          return loaded.func(symbol, result, parameters);
        },
      };
    };
    describeConformance(
      "the seam of a driver that does not tell parameters",
      () => createCudaDriver({ load: old }),
      {
        withoutKernels,
      },
    );
  });
}
