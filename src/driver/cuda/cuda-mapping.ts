/**
 * Mappings of device memory into the addresses of this process, also of memory that grows:
 * addresses are reserved, memory is mapped into them, and the device gets access.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
 */
import type { ErrorCode } from "../../base/error-codes.js";
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { deviceLocation, encodeAccessDescs } from "../../ffi/cuda-structs.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import type { Access } from "../../os/mapping.js";
import { formatAddress } from "../common/address-table.js";
import { checkExtension, checkMemorySize } from "../common/argument-checks.js";
import type { DevicePointer, DriverReservation, MemoryCalls } from "../memory-calls.js";
import type { CudaAddresses } from "./cuda-addresses.js";
import { granularity } from "./cuda-device.js";
import { type CudaMemory, locationOf, usableMemory } from "./cuda-memory.js";
import type { CudaSession } from "./cuda-session.js";
import { errorCodeOf } from "./cuda-status.js";

export type MappingCalls = Pick<
  MemoryCalls,
  | "mapMemory"
  | "unmapMemory"
  | "cpuAddress"
  | "reserveAddresses"
  | "extendMapping"
  | "releaseReservation"
>;

class CudaReservation implements DriverReservation {
  readonly ordinal: number;
  readonly pointer: DevicePointer;
  readonly byteLength: number;
  /** In the order of their addresses, without gaps. */
  readonly pieces: { readonly start: DevicePointer; readonly byteLength: number }[] = [];
  mappedBytes = 0;
  /** The access of all pieces; undefined before the first. */
  access: Access | undefined;
  released = false;

  constructor(ordinal: number, pointer: DevicePointer, byteLength: number) {
    this.ordinal = ordinal;
    this.pointer = pointer;
    this.byteLength = byteLength;
  }
}

export function cudaMappings(session: CudaSession, addresses: CudaAddresses): MappingCalls {
  const { memory: ranges } = addresses;
  return {
    mapMemory(memory, access) {
      const own = usableMemory(memory, "map");
      const { ordinal, byteLength, place } = own;
      if (access === "copy")
        throw new CudaIpcError("UNSUPPORTED", "Cannot copy memory of a GPU on write");
      const cuda = session.enter(ordinal);
      return acquireIn((scope) => {
        const start = scope.own(reserve(session, cuda, ordinal, byteLength), (it) =>
          unreserve(session, it, byteLength),
        );
        attach(session, cuda, own, start);
        scope.defer(() => detach(session, start, byteLength));
        allow(session, cuda, own, start, access);
        ranges.add({ start, byteLength, access, mapped: place });
        return start;
      });
    },

    unmapMemory(ordinal, pointer) {
      session.enterToRelease(ordinal);
      const range = ranges.at(pointer);
      if (range?.mapped === undefined)
        throw new RangeError(`Cannot unmap ${formatAddress(pointer)}: nothing is mapped there`);
      ranges.remove(pointer);
      releaseAll([
        () => detach(session, pointer, range.byteLength),
        () => unreserve(session, pointer, range.byteLength),
      ]);
    },

    cpuAddress: (pointer) =>
      ranges.holding(pointer)?.mapped === "host-numa" ? pointer : undefined,

    reserveAddresses(ordinal, byteLength) {
      const cuda = session.enter(ordinal);
      checkMemorySize(byteLength, granularity(session, ordinal));
      const start = reserve(session, cuda, ordinal, byteLength);
      return new CudaReservation(ordinal, start, byteLength);
    },

    extendMapping(reservation, memory, access) {
      const own = usableReservation(reservation, "extend");
      const piece = usableMemory(memory, "map");
      const cuda = session.enter(own.ordinal);
      checkExtension(own, piece, access);
      const start = own.pointer + BigInt(own.mappedBytes);
      acquireIn((scope) => {
        attach(session, cuda, piece, start);
        scope.defer(() => detach(session, start, piece.byteLength));
        allow(session, cuda, piece, start, access);
      });
      // WHY one range that grows: a copy may cross the pieces, in one check and one driver call.
      if (own.mappedBytes > 0) ranges.remove(own.pointer);
      own.pieces.push({ start, byteLength: piece.byteLength });
      own.mappedBytes += piece.byteLength;
      own.access = access;
      ranges.add({ start: own.pointer, byteLength: own.mappedBytes, access });
    },

    releaseReservation(reservation) {
      const own = usableReservation(reservation, "release");
      session.enterToRelease(own.ordinal);
      own.released = true;
      if (own.mappedBytes > 0) ranges.remove(own.pointer);
      const detachPiece = (piece: CudaReservation["pieces"][number]) => () =>
        detach(session, piece.start, piece.byteLength);
      releaseAll([
        ...own.pieces.map(detachPiece),
        () => unreserve(session, own.pointer, own.byteLength),
      ]);
    },
  };
}

function usableReservation(reservation: DriverReservation, verb: string): CudaReservation {
  if (!(reservation instanceof CudaReservation))
    throw new TypeError(`Cannot ${verb} addresses of another driver`);
  if (!reservation.released) return reservation;
  throw new CudaIpcError(
    "CLOSED",
    `Cannot ${verb} addresses of cuda:${reservation.ordinal}: they were released`,
  );
}

function reserve(session: CudaSession, cuda: Libcuda, ordinal: number, byteLength: number): bigint {
  const out = new BigUint64Array(1);
  const status = cuda.cuMemAddressReserve(out, byteLength, 0, 0n, 0n);
  session.check(status, "cuMemAddressReserve", `reserve ${byteLength} bytes on cuda:${ordinal}`);
  return out[0] as bigint;
}

function unreserve(session: CudaSession, pointer: bigint, byteLength: number): void {
  const status = session.cuda.cuMemAddressFree(pointer, byteLength);
  session.checkReleased(status, "cuMemAddressFree", `give back ${byteLength} bytes of addresses`);
}

/** Drivers refuse a wrong size with one of these; driver 580 says "not supported". */
const sizeRefusals: readonly ErrorCode[] = ["CUDA_ERROR", "UNSUPPORTED"];

function attach(session: CudaSession, cuda: Libcuda, memory: CudaMemory, start: bigint): void {
  const { ordinal, byteLength, handle, imported } = memory;
  // SAFETY: a whole mapping from offset 0. Driver 580 takes no other: it refuses a part at any
  // offset, and every size that differs from the allocation's (measured).
  const status = cuda.cuMemMap(start, byteLength, 0, handle, 0n);
  if (status === cuResult.CUDA_SUCCESS) return;
  const attempt = `map ${byteLength} bytes on cuda:${ordinal}`;
  if (imported && sizeRefusals.includes(errorCodeOf(status))) {
    const claim = `${attempt}, the size that the descriptor claims`;
    throw session.failure(status, "cuMemMap", claim, "INVALID_DESCRIPTOR");
  }
  throw session.failure(status, "cuMemMap", attempt);
}

function detach(session: CudaSession, pointer: bigint, byteLength: number): void {
  const status = session.cuda.cuMemUnmap(pointer, byteLength);
  const attempt = `unmap ${byteLength} bytes at ${formatAddress(pointer)}`;
  session.checkReleased(status, "cuMemUnmap", attempt);
}

function allow(
  session: CudaSession,
  cuda: Libcuda,
  memory: CudaMemory,
  start: bigint,
  access: Access,
): void {
  const { ordinal, byteLength, place } = memory;
  const flags =
    access === "read"
      ? cuValue.CU_MEM_ACCESS_FLAGS_PROT_READ
      : cuValue.CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const users = [deviceLocation(session.device(ordinal))];
  if (place !== "device") users.push(locationOf(session, ordinal, place));
  const descriptors = encodeAccessDescs(users, flags);
  const status = cuda.cuMemSetAccess(start, byteLength, descriptors, users.length);
  session.check(status, "cuMemSetAccess", `give cuda:${ordinal} ${access} access`);
}
