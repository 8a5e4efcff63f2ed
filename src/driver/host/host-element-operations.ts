/** Stands in until this part of the seam is there. */
import { CudaIpcError } from "../../base/errors.js";
import type { OperationCalls } from "../operation-calls.js";
import type { HostParts } from "./host-driver.js";

export function createHostElementOperations(_parts: HostParts): OperationCalls {
  const missing = (): never => {
    throw new CudaIpcError("UNSUPPORTED", "Cannot do this yet");
  };
  return {
    enqueueOperation: missing,
    enqueueReduction: missing,
    prepareOperations: missing,
  };
}
