/** Waits for the readers of a channel, and names them in the writer's errors. */
import type { Deadline } from "../base/deadline.js";
import { hasCode, withCallers } from "../base/errors.js";
import { retryPause } from "../base/pause.js";
import type { LiveReader } from "../ring/reader-seats.js";

/** The hub that has the channel, for errors. */
export interface ReaderNames {
  readonly socketPath: string;
  /** Returns the process of each reader by its seat: `process 77 (viewer.js)`. */
  whoReads(): Promise<ReadonlyMap<number, string>>;
}

/** How many readers a message names. It counts the others. */
const NAMED_MAX = 3;

export class ReaderRoster {
  readonly #live: () => LiveReader[];
  readonly #names: ReaderNames | undefined;
  /** Processes by lease, because a seat may have another reader later. */
  readonly #known = new Map<number, string>();

  constructor(live: () => LiveReader[], names: ReaderNames | undefined) {
    this.#live = live;
    this.#names = names;
  }

  /**
   * Resolves when there are this many readers.
   * @param checkOpen throws if the writer was closed
   * @throws TIMEOUT, which names the readers that came; ABORTED
   */
  async arrived(count: number, deadline: Deadline, checkOpen: () => void): Promise<void> {
    for (;;) {
      checkOpen();
      if (this.#live().length >= count) return;
      try {
        // Nothing rings when a reader attaches, so poll.
        await retryPause(deadline);
      } catch (error) {
        if (!hasCode(error, "TIMEOUT")) throw withCallers(error);
        const readers = this.#live();
        const names = readers.length === 0 ? "" : `: ${await this.#list(readers, () => "")}`;
        const where = this.#names === undefined ? "" : `; the hub is at ${this.#names.socketPath}`;
        throw withCallers(deadline.timedOut(`${readers.length} of ${count} came${names}${where}`));
      }
    }
  }

  /**
   * Names the readers for which a writer without a free slot waits, the slowest first. Returns ""
   * if it waits for none.
   */
  async late(slots: number): Promise<string> {
    const readers = this.#live();
    const waited = readers.filter(({ isWaitedFor, behind }) => isWaitedFor && behind >= slots);
    const holders = readers.filter(({ isWaitedFor }) => !isWaitedFor);
    const slow = (waited.length > 0 ? waited : holders).toSorted(
      (one, other) => other.behind - one.behind,
    );
    const words = ({ behind }: LiveReader) =>
      waited.length > 0
        ? ` is ${behind} ${behind === 1 ? "message" : "messages"} behind`
        : " holds slots";
    return this.#list(slow, words);
  }

  async #list(
    readers: readonly LiveReader[],
    more: (reader: LiveReader) => string,
  ): Promise<string> {
    await this.#learn(readers);
    const named = readers.slice(0, NAMED_MAX).map((reader) => {
      const process = this.#known.get(reader.lease);
      return `reader ${reader.seat}${process === undefined ? "" : ` (${process})`}${more(reader)}`;
    });
    if (readers.length > NAMED_MAX) named.push(`and ${readers.length - NAMED_MAX} more`);
    return named.join(", ");
  }

  async #learn(readers: readonly LiveReader[]): Promise<void> {
    // A writer may time out a hundred times a second, so ask only about new readers.
    if (readers.every(({ lease }) => this.#known.has(lease))) return;
    const processes = (await this.#names?.whoReads()) ?? new Map();
    this.#known.clear();
    for (const { seat, lease } of readers) {
      const process = processes.get(seat);
      if (process !== undefined) this.#known.set(lease, process);
    }
  }
}
