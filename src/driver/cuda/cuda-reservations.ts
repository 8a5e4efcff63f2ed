/** GPU memory that grows in place: addresses reserved once, physical memory mapped into them piece after piece. */
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { Access } from "../../os/mapping.js";
import type { DevicePointer, DriverMemory } from "../gpu-driver.js";
import { checkExtension, checkMemorySize } from "../operation-checks.js";
import type { DriverReservation, ReservationCalls } from "../reservation-calls.js";
import { granularity } from "./cuda-device.js";
import type { CudaParts } from "./cuda-driver.js";
import { usableMemory } from "./cuda-memory.js";

class CudaReservation implements DriverReservation {
  readonly ordinal: number;
  readonly pointer: DevicePointer;
  readonly byteLength: number;
  /** In the order of their addresses, without gaps. */
  readonly pieces: { readonly start: DevicePointer; readonly byteLength: number }[] = [];
  mappedBytes = 0;
  /** Of all that is mapped; undefined while nothing is. */
  access: Access | undefined;
  released = false;

  constructor(ordinal: number, pointer: DevicePointer, byteLength: number) {
    this.ordinal = ordinal;
    this.pointer = pointer;
    this.byteLength = byteLength;
  }
}

export function createCudaReservations({ session, mappings }: CudaParts): ReservationCalls {
  return {
    reserveAddresses(ordinal, byteLength) {
      const cuda = session.enter(ordinal);
      checkMemorySize(byteLength, granularity(session, ordinal));
      return new CudaReservation(ordinal, mappings.reserve(cuda, ordinal, byteLength), byteLength);
    },

    extendMapping(reservation: DriverReservation, memory: DriverMemory, access: Access) {
      const own = usable(reservation, "extend");
      const piece = usableMemory(memory, "map");
      const cuda = session.enter(own.ordinal);
      checkExtension(own, piece, access);
      const start = own.pointer + BigInt(own.mappedBytes);
      acquireIn((scope) => {
        mappings.attach(cuda, piece, start);
        scope.defer(() => mappings.detach(start, piece.byteLength));
        mappings.allow(cuda, piece, start, access);
      });
      // WHY one range that grows: a copy may go across the pieces, which is one check and one call of the driver.
      if (own.mappedBytes > 0) mappings.removeRange(own.pointer);
      own.pieces.push({ start, byteLength: piece.byteLength });
      own.mappedBytes += piece.byteLength;
      own.access = access;
      mappings.addRange({ start: own.pointer, byteLength: own.mappedBytes, access });
    },

    releaseReservation(reservation) {
      const own = usable(reservation, "release");
      session.enterToRelease(own.ordinal);
      own.released = true;
      if (own.mappedBytes > 0) mappings.removeRange(own.pointer);
      releaseAll([
        ...own.pieces.map(
          ({ start, byteLength }) =>
            () =>
              mappings.detach(start, byteLength),
        ),
        () => mappings.unreserve(own.pointer, own.byteLength),
      ]);
    },
  };
}

function usable(reservation: DriverReservation, verb: string): CudaReservation {
  if (!(reservation instanceof CudaReservation)) throw new TypeError(`Cannot ${verb} addresses of another driver`);
  if (!reservation.released) return reservation;
  throw new CudaIpcError("CLOSED", `Cannot ${verb} addresses of cuda:${reservation.ordinal}: they were released`);
}
