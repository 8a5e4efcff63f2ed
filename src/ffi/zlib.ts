/** The checksum of the zlib that Node itself is linked with. https://zlib.net/manual.html */
import { crc32 as crc32OfView } from "node:zlib";
import { type Address, koffi, viewMemory } from "./koffi.js";

interface Crc32 {
  /** Runs on the thread pool. */
  async(
    start: number,
    bytes: Address,
    byteLength: number,
    callback: (failure: unknown, crc: number) => void,
  ): void;
}

let opened: Crc32 | undefined;
let isMissing = false;

/**
 * The CRC-32 of memory, computed on the thread pool. SAFETY: the memory stays mapped until this
 * resolves; at most 4 GiB.
 */
export async function crc32At(bytes: Address, byteLength: number): Promise<number> {
  const crc32 = open();
  if (crc32 === undefined) return crc32OfView(new Uint8Array(viewMemory(bytes, byteLength)));
  return new Promise((resolve, reject) => {
    crc32.async(0, bytes, byteLength, (failure, crc) => {
      if (failure === null || failure === undefined) resolve(Number(crc));
      else reject(failure);
    });
  });
}

/** Undefined in a Node that hides its zlib. */
function open(): Crc32 | undefined {
  if (opened !== undefined || isMissing) return opened;
  try {
    const library = koffi().load(null);
    opened = library.func("crc32", "ulong", ["ulong", "void*", "uint"]) as unknown as Crc32;
  } catch {
    isMissing = true;
  }
  return opened;
}
