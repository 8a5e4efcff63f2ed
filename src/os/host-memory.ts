/** Addresses of JavaScript's memory, and JavaScript's view of addresses, for the layers that may not use ffi. */
import { type Address, koffi, viewMemory } from "../ffi/koffi.js";
import { libc } from "../ffi/libc.js";

/**
 * The address of the first byte.
 * SAFETY: valid while the array is reachable and not resized or transferred; array buffers do not move.
 */
export function addressOf(bytes: Uint8Array): Address {
  return BigInt(koffi().address(bytes));
}

/**
 * Memory at an address as bytes, without a copy.
 * SAFETY: the caller keeps it mapped for as long as the view is used; at most `limits.viewBytesMax` at a time.
 */
export function viewAt(address: Address, byteLength: number): Uint8Array {
  return byteLength === 0 ? new Uint8Array(0) : new Uint8Array(viewMemory(address, byteLength));
}

/** Below this a copy takes less time than a hop to the thread pool and back (about 50 us). */
const INLINE_COPY_BYTES = 256 * 1024;

/**
 * Copies memory to memory; long copies by the thread pool, so that the event loop goes on.
 * SAFETY: both ranges stay mapped, and what holds them reachable, until this resolves.
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
