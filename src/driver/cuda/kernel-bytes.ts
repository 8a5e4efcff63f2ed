/** Arguments of kernels as bytes. */

export function u32(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

/** A count or an address. */
export function u64(value: number | bigint): Uint8Array {
  return new Uint8Array(BigUint64Array.of(BigInt(value)).buffer);
}
