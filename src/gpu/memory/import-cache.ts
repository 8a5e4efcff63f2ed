/**
 * Keeps one mapping for each imported piece of memory, however often it is opened. The mapping ends
 * with its last user. CUDA's driver miscounts memory that one process imports twice.
 */
import type { MappedMemory } from "./mapped-memory.js";

export class ImportCache {
  readonly #mapped = new Map<string, MappedMemory>();

  get size(): number {
    return this.#mapped.size;
  }

  /** Returns the mapping under this key and adds a user. Imports the memory if it is not mapped. */
  open(key: string, importMemory: () => MappedMemory): MappedMemory {
    const known = this.#mapped.get(key);
    if (known !== undefined) return known.retain();
    const memory = importMemory();
    this.#mapped.set(key, memory);
    memory.onUnmapped(() => this.#mapped.delete(key));
    return memory;
  }
}
