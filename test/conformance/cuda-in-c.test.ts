/**
 * Runs the suite on the CUDA driver and its FFI without a GPU: libcuda is written in C here,
 * against the real cuda.h. Without a compiler or the header it is skipped, like
 * test/unit/ffi/cuda-header.test.ts.
 */
import { describe } from "node:test";
import { createCudaDriver } from "../../src/driver/cuda/cuda-driver.js";
import type { SharedLibrary } from "../../src/ffi/libcuda.js";
import { withLibcudaInC } from "../support/libcuda-in-c.js";
import { describeConformance } from "./describe-conformance.js";

const TITLE = "conformance of the CUDA driver on a libcuda in C";

withLibcudaInC(TITLE, ({ folder, load, openDriver }) => {
  describe(TITLE, () => {
    // The child processes of the suite open libcuda by its name.
    process.env.LD_LIBRARY_PATH = folder;
    const withoutKernels = "it runs no PTX; test/unit/driver/cuda/ptx-operations.test.ts does";
    describeConformance("the seam", openDriver, { withoutKernels });

    const old = (): SharedLibrary => {
      const loaded = load();
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
});
