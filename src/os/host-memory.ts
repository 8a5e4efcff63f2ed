/** Converts between JavaScript's memory and addresses, for layers that may not use ffi. */
import { type Address, koffi, viewMemory } from "../ffi/koffi.js";
import { libc } from "../ffi/libc.js";

/**
 * The address of the first byte.
 * SAFETY: valid while the array is reachable and not resized or transferred; array buffers do not
 * move.
 */
export function addressOf(bytes: Uint8Array): Address {
  return BigInt(koffi().address(bytes));
}

/**
 * A view of the memory at an address. SAFETY: the caller keeps it mapped while the view is used; at
 * most `limits.viewBytesMax` bytes.
 */
export function viewAt(address: Address, byteLength: number): Uint8Array {
  return byteLength === 0 ? new Uint8Array(0) : new Uint8Array(viewMemory(address, byteLength));
}

/** The GMAC of memory. SAFETY: as for `viewAt`, until this resolves. */
export { macAt } from "../ffi/libcrypto.js";

/** A shorter copy takes less time than a trip to the thread pool and back (about 50 µs). */
const INLINE_COPY_BYTES = 256 * 1024;

/**
 * Copies memory. Long copies run on the thread pool. SAFETY: both ranges stay mapped, and their
 * owners reachable, until this resolves.
 */
export async function copyMemory(to: Address, from: Address, byteLength: number): Promise<void> {
  if (byteLength <= INLINE_COPY_BYTES) {
    libc().memmove(to, from, byteLength);
    return;
  }
  await new Promise<void>((resolve, reject) => {
    libc().memmove.async(to, from, byteLength, (failure) => {
      if (failure === null || failure === undefined) resolve();
      else reject(failure);
    });
  });
}
