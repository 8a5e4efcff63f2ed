/** Stands in until this part of the seam is there. */
import { CudaIpcError } from "../../base/errors.js";
import type { ReservationCalls } from "../reservation-calls.js";
import type { CudaParts } from "./cuda-driver.js";

export function createCudaReservations(_parts: CudaParts): ReservationCalls {
  const missing = (): never => {
    throw new CudaIpcError("UNSUPPORTED", "Cannot do this yet");
  };
  return {
    reserveAddresses: missing,
    extendMapping: missing,
    releaseReservation: missing,
  };
}
