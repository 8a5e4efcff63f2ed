/**
 * One mapping per allocation and access, however often it is opened: opening again counts, and the mapping goes with the last close.
 */
import type { DeviceBuffer } from "./device-buffer.js";

interface Entry {
  readonly buffer: DeviceBuffer;
  count: number;
}

export class ImportCache {
  readonly #entries = new Map<string, Entry>();

  get size(): number {
    return this.#entries.size;
  }

  /** The buffer under the key, imported now where it is not there yet. Each call is matched by one `release`. */
  acquire(key: string, importBuffer: () => DeviceBuffer): DeviceBuffer {
    const known = this.#entries.get(key);
    if (known !== undefined) {
      known.count += 1;
      return known.buffer;
    }
    const buffer = importBuffer();
    this.#entries.set(key, { buffer, count: 1 });
    return buffer;
  }

  release(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) throw new TypeError(`release of "${key}", which is not held`);
    entry.count -= 1;
    if (entry.count > 0) return;
    this.#entries.delete(key);
    entry.buffer.close();
  }
}
