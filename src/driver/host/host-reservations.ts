/** Stands in until this part of the seam is there. */
import { CudaIpcError } from "../../base/errors.js";
import type { ReservationCalls } from "../reservation-calls.js";
import type { HostParts } from "./host-driver.js";

export function createHostReservations(_parts: HostParts): ReservationCalls {
  const missing = (): never => {
    throw new CudaIpcError("UNSUPPORTED", "Cannot do this yet");
  };
  return {
    reserveAddresses: missing,
    extendMapping: missing,
    releaseReservation: missing,
  };
}
