/** Stands in until this part of the seam is there. */
import { CudaIpcError } from "../../base/errors.js";
import type { KernelCalls } from "../kernel-calls.js";
import type { OperationCalls } from "../operation-calls.js";
import type { CudaParts } from "./cuda-driver.js";

export function createCudaElementOperations(_parts: CudaParts, _modules: KernelCalls): OperationCalls {
  const missing = (): never => {
    throw new CudaIpcError("UNSUPPORTED", "Cannot do this yet");
  };
  return {
    enqueueOperation: missing,
    enqueueReduction: missing,
    prepareOperations: missing,
  };
}
