/** Memory of the host device that grows in place: a mapping without memory, into which memory files are mapped one after the other. */
import { CudaIpcError } from "../../base/errors.js";
import { type Access, Mapping } from "../../os/mapping.js";
import type { DriverMemory } from "../gpu-driver.js";
import { checkExtension, checkMemorySize } from "../operation-checks.js";
import type { DriverReservation, ReservationCalls } from "../reservation-calls.js";
import type { HostParts } from "./host-driver.js";
import { HOST_GRANULARITY_BYTES } from "./host-memory.js";

class HostReservation implements DriverReservation {
  readonly ordinal = 0;
  readonly mapping: Mapping;
  mappedBytes = 0;
  /** Of all that is mapped; undefined while nothing is. */
  access: Access | undefined;
  released = false;

  constructor(mapping: Mapping) {
    this.mapping = mapping;
  }

  get pointer(): bigint {
    return this.mapping.address;
  }

  get byteLength(): number {
    return this.mapping.byteLength;
  }
}

export function createHostReservations({ session, memories }: HostParts): ReservationCalls {
  return {
    reserveAddresses(ordinal, byteLength) {
      session.use(ordinal);
      checkMemorySize(byteLength, HOST_GRANULARITY_BYTES);
      return new HostReservation(Mapping.reserved(byteLength));
    },

    extendMapping(reservation: DriverReservation, memory: DriverMemory, access: Access) {
      session.use();
      const own = usable(reservation, "extend");
      checkExtension(own, memory, access);
      memories.place(memory, own.mapping, own.mappedBytes, access);
      if (own.mappedBytes > 0) memories.removeRange(own.pointer);
      own.mappedBytes += memory.byteLength;
      own.access = access;
      memories.addRange({ start: own.pointer, byteLength: own.mappedBytes, access });
    },

    releaseReservation(reservation) {
      session.use();
      const own = usable(reservation, "release");
      own.released = true;
      if (own.mappedBytes > 0) memories.removeRange(own.pointer);
      own.mapping.close();
    },
  };
}

function usable(reservation: DriverReservation, verb: string): HostReservation {
  if (!(reservation instanceof HostReservation)) throw new TypeError(`Cannot ${verb} addresses of another driver`);
  if (!reservation.released) return reservation;
  throw new CudaIpcError("CLOSED", `Cannot ${verb} addresses of host: they were released`);
}
