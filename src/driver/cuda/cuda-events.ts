/** Stands in until this part of the seam is there. */
import { CudaIpcError } from "../../base/errors.js";
import type { EventCalls } from "../event-calls.js";
import type { CudaParts } from "./cuda-driver.js";

export function createCudaEvents(_parts: CudaParts): EventCalls {
  const missing = (): never => {
    throw new CudaIpcError("UNSUPPORTED", "Cannot do this yet");
  };
  return {
    createEvent: missing,
    recordEvent: missing,
    isEventDone: missing,
    waitEvent: missing,
    exportEvent: missing,
    importEvent: missing,
    destroyEvent: missing,
  };
}
