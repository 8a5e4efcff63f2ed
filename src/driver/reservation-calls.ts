/** The seam's part on memory that grows in place: addresses are reserved once, and memory is mapped into them piece after piece. */
import type { Access } from "../os/mapping.js";
import type { DevicePointer, DriverMemory } from "./gpu-driver.js";

/** A range of addresses. What is mapped in it lies at its start without gaps. Ended by `releaseReservation`. */
export interface DriverReservation {
  readonly ordinal: number;
  readonly pointer: DevicePointer;
  readonly byteLength: number;
  /** How much is mapped so far. */
  readonly mappedBytes: number;
}

export interface ReservationCalls {
  /** @param byteLength a multiple of the granularity */
  reserveAddresses(ordinal: number, byteLength: number): DriverReservation;
  /**
   * Maps the whole memory behind what is mapped already, with the same access; addresses that are in use stay as they are, and what
   * is enqueued may go across the pieces. The mapping keeps the memory when its handle is released.
   * @throws LIMIT_EXCEEDED where the reservation has no room for it, and what `mapMemory` throws
   */
  extendMapping(reservation: DriverReservation, memory: DriverMemory, access: Access): void;
  /** Unmaps everything and gives the addresses back. The caller has seen to it that no stream still uses them. */
  releaseReservation(reservation: DriverReservation): void;
}
