/** Stands in until this part of the seam is there. */
import { CudaIpcError } from "../../base/errors.js";
import type { PoolCalls } from "../pool-calls.js";
import type { HostParts } from "./host-driver.js";

export function createHostPools(_parts: HostParts): PoolCalls {
  const missing = (): never => {
    throw new CudaIpcError("UNSUPPORTED", "Cannot do this yet");
  };
  return {
    createPool: missing,
    destroyPool: missing,
    exportPool: missing,
    importPool: missing,
    allocateFromPool: missing,
    freeToPool: missing,
    exportPoolPointer: missing,
    importPoolPointer: missing,
    poolStatistics: missing,
    trimPool: missing,
  };
}
