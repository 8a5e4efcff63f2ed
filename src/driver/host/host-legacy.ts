/** Stands in until this part of the seam is there. */
import { CudaIpcError } from "../../base/errors.js";
import type { LegacyCalls } from "../legacy-calls.js";
import type { HostParts } from "./host-driver.js";

export function createHostLegacy(_parts: HostParts): LegacyCalls {
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
