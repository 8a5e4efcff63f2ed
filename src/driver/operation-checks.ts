/** What both drivers demand of the arguments of an operation, so that misuse is the same RangeError on both. */
import { checkInteger } from "../base/bytes.js";
import { CudaIpcError } from "../base/errors.js";
import type { Access } from "../os/mapping.js";
import { type AddressRange, bytesInto, formatAddress } from "./address-table.js";
import type { DevicePointer, DriverMemory, FillPattern, WordOperation } from "./gpu-driver.js";
import type { DriverReservation } from "./reservation-calls.js";

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
  // WHY not `%`: it costs several times as much, in every signal and wait.
  if ((pointer & 7n) !== 0n) throw notMultiple("Address of a word", pointer, 8);
}

/** The driver's own limit is 256 exclusive. */
export function checkBatch(operations: readonly WordOperation[]): void {
  checkInteger("Batch of words: count", operations.length, 0, 255);
}

export function checkMemorySize(byteLength: number, granularityBytes: number): void {
  checkInteger("Memory: byteLength", byteLength, 1);
  if (byteLength % granularityBytes !== 0) {
    throw new RangeError(`Memory: byteLength must be a multiple of ${granularityBytes}, not ${byteLength}`);
  }
}

/** What a reservation takes behind what is mapped in it; all of it has one access, since it is one range for every operation. */
export function checkExtension(
  reservation: DriverReservation & { readonly access: Access | undefined },
  memory: DriverMemory,
  access: Access,
): void {
  if (memory.ordinal !== reservation.ordinal) {
    throw new TypeError(
      `Cannot map memory of device ${memory.ordinal} into addresses of device ${reservation.ordinal}`,
    );
  }
  if (reservation.access !== undefined && reservation.access !== access) {
    throw new TypeError(`Cannot map memory for ${access} behind memory for ${reservation.access}`);
  }
  const room = reservation.byteLength - reservation.mappedBytes;
  if (memory.byteLength <= room) return;
  const attempt = `Cannot map ${memory.byteLength} bytes more`;
  throw new CudaIpcError("LIMIT_EXCEEDED", `${attempt}: ${room} of ${reservation.byteLength} reserved bytes are left`);
}

/**
 * An operation within a range that was handed out.
 * @throws RangeError where it goes beyond the end, READ_ONLY where it writes to memory that is there for reading only
 */
export function checkWithin(range: AddressRange, address: bigint, byteLength: number, access: Access): void {
  const bytesLeft = range.byteLength - bytesInto(range, address);
  if (byteLength > bytesLeft) {
    const end = `the memory there ends after ${bytesLeft} bytes`;
    throw new RangeError(`${byteLength} bytes at ${formatAddress(address)}: ${end}`);
  }
  if (access === "read-write" && range.access === "read") {
    const where = `${byteLength} bytes at ${formatAddress(address)}`;
    throw new CudaIpcError("READ_ONLY", `Cannot write ${where}: the memory is there for reading only`);
  }
}

export function checkMultiple(what: string, address: bigint, divisor: number): void {
  if (address % BigInt(divisor) !== 0n) throw notMultiple(what, address, divisor);
}

function notMultiple(what: string, address: bigint, divisor: number): RangeError {
  return new RangeError(`${what} must be a multiple of ${divisor}, not ${formatAddress(address)}`);
}
