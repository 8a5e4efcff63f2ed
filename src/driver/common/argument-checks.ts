/** Checks of arguments that both drivers make, so that misuse gives the same error on both. */
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import type { Access } from "../../os/mapping.js";
import type { DevicePointer, DriverMemory, DriverReservation } from "../memory-calls.js";
import type { FillPattern, WordOperation } from "../stream-calls.js";
import { type AddressRange, bytesInto, formatAddress } from "./address-table.js";

export function checkFill(to: DevicePointer, pattern: FillPattern, count: number): void {
  const { elementBytes, value } = pattern;
  if (elementBytes !== 1 && elementBytes !== 2 && elementBytes !== 4) {
    throw new RangeError(`Fill: elementBytes must be 1, 2 or 4, not ${String(elementBytes)}`);
  }
  checkInteger("Fill: value", value, 0, 2 ** (8 * elementBytes) - 1);
  checkInteger("Fill: count", count, 0);
  checkMultiple("Fill: address", to, elementBytes);
}

export function checkWordAddress(pointer: DevicePointer): void {
  // WHY not `%`: it costs several times as much, and every signal and wait comes here.
  if ((pointer & 7n) !== 0n) throw notMultiple("Address of a word", pointer, 8);
}

/** The CUDA driver takes fewer than 256. */
export function checkBatch(operations: readonly WordOperation[]): void {
  checkInteger("Batch of words: count", operations.length, 0, 255);
}

export function checkMemorySize(byteLength: number, granularityBytes: number): void {
  checkInteger("Memory: byteLength", byteLength, 1);
  if (byteLength % granularityBytes !== 0) {
    throw new RangeError(
      `Memory: byteLength must be a multiple of ${granularityBytes}, not ${byteLength}`,
    );
  }
}

/**
 * Checks that memory can extend a reservation. All pieces have the same access, because operations
 * see them as one range.
 */
export function checkExtension(
  reservation: DriverReservation & { readonly access: Access | undefined },
  memory: DriverMemory,
  access: Access,
): void {
  if (memory.ordinal !== reservation.ordinal) {
    const target = `addresses of device ${reservation.ordinal}`;
    throw new TypeError(`Cannot map memory of device ${memory.ordinal} into ${target}`);
  }
  if (reservation.access !== undefined && reservation.access !== access) {
    throw new TypeError(`Cannot map memory for ${access} behind memory for ${reservation.access}`);
  }
  const room = reservation.byteLength - reservation.mappedBytes;
  if (memory.byteLength <= room) return;
  const attempt = `Cannot map ${memory.byteLength} bytes more`;
  throw new CudaIpcError(
    "LIMIT_EXCEEDED",
    `${attempt}: ${room} of ${reservation.byteLength} reserved bytes are left`,
  );
}

/**
 * Checks an operation against the range that contains its address.
 * @throws RangeError if it goes beyond the end, READ_ONLY if it writes to read-only memory
 */
export function checkWithin(
  range: AddressRange,
  address: bigint,
  byteLength: number,
  access: Access,
): void {
  const bytesLeft = range.byteLength - bytesInto(range, address);
  if (byteLength > bytesLeft) {
    const end = `the memory there ends after ${bytesLeft} bytes`;
    throw new RangeError(`${byteLength} bytes at ${formatAddress(address)}: ${end}`);
  }
  if (access === "read-write" && range.access === "read") {
    const where = `${byteLength} bytes at ${formatAddress(address)}`;
    throw new CudaIpcError("READ_ONLY", `Cannot write ${where}: the memory is read-only`);
  }
}

export function checkMultiple(what: string, address: bigint, divisor: number): void {
  if (address % BigInt(divisor) !== 0n) throw notMultiple(what, address, divisor);
}

function notMultiple(what: string, address: bigint, divisor: number): RangeError {
  return new RangeError(`${what} must be a multiple of ${divisor}, not ${formatAddress(address)}`);
}
