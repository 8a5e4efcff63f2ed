/** Stands in until this part of the seam is there. */
import { CudaIpcError } from "../../base/errors.js";
import type { LegacyCalls } from "../legacy-calls.js";
import type { CudaParts } from "./cuda-driver.js";

export function createCudaLegacy(_parts: CudaParts): LegacyCalls {
  const missing = (): never => {
    throw new CudaIpcError("UNSUPPORTED", "Cannot do this yet");
  };
  return {
    allocateLegacy: missing,
    freeLegacy: missing,
    exportLegacy: missing,
    importLegacy: missing,
    closeLegacy: missing,
  };
}
