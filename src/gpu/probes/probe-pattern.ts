/** The byte pattern that probes write, and the check that they read the same bytes. */
import { CudaIpcError } from "../../base/errors.js";

export const PROBE_BYTES = 1024 * 1024;
export const PROBE_TIMEOUT_MS = 5_000;

/** The bytes repeat every 251, which is prime, so a block at a wrong offset is noticed. */
export function probePattern(byteLength: number, first = 0): Uint8Array {
  return Uint8Array.from({ length: byteLength }, (_, i) => (first + i) % 251);
}

/** @throws VERIFICATION_FAILED naming the first byte that differs from the pattern */
export function verifyPattern(received: Uint8Array, what: string, first = 0): void {
  const wanted = probePattern(received.byteLength, first);
  if (Buffer.compare(wanted, received) === 0) return;
  const at = wanted.findIndex((byte, i) => byte !== received[i]);
  throw new CudaIpcError(
    "VERIFICATION_FAILED",
    `Byte ${at} of ${what} is ${received[at]}, wanted ${wanted[at]}`,
  );
}
