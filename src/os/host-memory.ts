/** Addresses of JavaScript's memory, and JavaScript's view of addresses, for the layers that may not use ffi. */
import { type Address, koffi, viewMemory } from "../ffi/koffi.js";

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
