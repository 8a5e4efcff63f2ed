/**
 * One mapping per allocation and access, however often it is opened: each opening gets a buffer of its own on it, and the mapping
 * goes with the last of them. (The CUDA driver miscounts memory that is imported twice.)
 */
import type { DeviceBuffer } from "./device-buffer.js";

export class ImportCache {
  /** The buffer with which each mapping began; it may be closed while others use the mapping. */
  readonly #first = new Map<string, DeviceBuffer>();

  get size(): number {
    return this.#first.size;
  }

  /** A buffer on the mapping under the key, which is imported now where it is not there yet. The caller closes it. */
  open(key: string, importBuffer: () => DeviceBuffer): DeviceBuffer {
    const known = this.#first.get(key);
    if (known !== undefined) return known.twin();
    const buffer = importBuffer();
    this.#first.set(key, buffer);
    buffer.onUnmapped(() => this.#first.delete(key));
    return buffer;
  }
}
