/** Fills one reply with as many entries as a message can carry. */
import { limits } from "../../base/limits.js";

/** Room for the rest of a reply: its head, a name, and one object with at most 64 dimensions. */
const REST_BYTES = 8 * 1024;

export class Fitting {
  readonly #bytesMax: number;
  #byteLength = 0;

  constructor(bytesMax: number = limits.messageBytesMax - REST_BYTES) {
    this.#bytesMax = bytesMax;
  }

  /** Counts the entry if there is room for it. Returns whether there was. */
  takes(entry: unknown): boolean {
    const byteLength = this.#byteLength + Buffer.byteLength(JSON.stringify(entry)) + 1;
    if (byteLength > this.#bytesMax) return false;
    this.#byteLength = byteLength;
    return true;
  }
}

/** As many entries as fit, from the first on, and whether there are more. */
export function takeFitting<Item, Entry>(
  items: Iterable<Item>,
  entryOf: (item: Item) => Entry,
  fitting = new Fitting(),
): { readonly taken: Entry[]; readonly more: boolean } {
  const taken: Entry[] = [];
  for (const item of items) {
    const entry = entryOf(item);
    if (!fitting.takes(entry)) return { taken, more: true };
    taken.push(entry);
  }
  return { taken, more: false };
}
