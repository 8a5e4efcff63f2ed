/** Which readers a writer waits for, in the words of its errors. */
import type { LiveReader } from "../ring/reader-places.js";

/** Tells which processes have the places of readers: `process 77 (viewer.js)` by place. */
export type WhoReads = () => Promise<ReadonlyMap<number, string>>;

/** Readers that a message names; the others are counted. */
const NAMED_MAX = 3;

export class ReaderWords {
  readonly #whoReads: WhoReads;
  /** By lease: a place may have another reader later. */
  readonly #known = new Map<number, string>();

  constructor(whoReads: WhoReads) {
    this.#whoReads = whoReads;
  }

  /**
   * Those that keep a writer waiting that has no free slot; the slowest first. Empty if none does.
   */
  async late(readers: readonly LiveReader[], slots: number): Promise<string> {
    const waited = readers.filter(({ isWaitedFor, behind }) => isWaitedFor && behind >= slots);
    const holders = readers.filter(({ isWaitedFor }) => !isWaitedFor);
    const slow = (waited.length > 0 ? waited : holders).toSorted((one, other) => other.behind - one.behind);
    const words = ({ behind }: LiveReader) =>
      waited.length > 0 ? ` is ${behind} ${behind === 1 ? "message" : "messages"} behind` : " holds slots";
    return this.#list(slow, words);
  }

  /** All of them. */
  present(readers: readonly LiveReader[]): Promise<string> {
    return this.#list(readers, () => "");
  }

  async #list(readers: readonly LiveReader[], more: (reader: LiveReader) => string): Promise<string> {
    await this.#learn(readers);
    const named = readers.slice(0, NAMED_MAX).map((reader) => {
      const process = this.#known.get(reader.lease);
      return `reader ${reader.place}${process === undefined ? "" : ` (${process})`}${more(reader)}`;
    });
    if (readers.length > NAMED_MAX) named.push(`and ${readers.length - NAMED_MAX} more`);
    return named.join(", ");
  }

  async #learn(readers: readonly LiveReader[]): Promise<void> {
    // WHY not each time: a writer may give up a hundred times a second.
    if (readers.every(({ lease }) => this.#known.has(lease))) return;
    const processes = await this.#whoReads();
    this.#known.clear();
    for (const { place, lease } of readers) {
      const process = processes.get(place);
      if (process !== undefined) this.#known.set(lease, process);
    }
  }
}
