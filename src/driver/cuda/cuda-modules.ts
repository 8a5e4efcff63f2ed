/** Stands in until this part of the seam is there. */
import { CudaIpcError } from "../../base/errors.js";
import type { KernelCalls } from "../kernel-calls.js";
import type { CudaParts } from "./cuda-driver.js";

export function createCudaModules(_parts: CudaParts): KernelCalls {
  const missing = (): never => {
    throw new CudaIpcError("UNSUPPORTED", "Cannot do this yet");
  };
  return {
    loadModule: missing,
    unloadModule: missing,
    findKernel: missing,
    launchKernel: missing,
  };
}
