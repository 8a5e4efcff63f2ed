/** Those who want to be told of one kind of event, each until it is taken off. */
import { checkFunction } from "./option-checks.js";

export class Listeners<Event> {
  // WHY entries: the same function may be added twice, and each time is taken off by itself.
  readonly #entries = new Set<{ readonly listener: (event: Event) => void }>();

  /** Returns what takes it off again; calling that twice changes nothing. @throws TypeError */
  add(listener: (event: Event) => void): () => void {
    checkFunction("listener", listener);
    const entry = { listener };
    this.#entries.add(entry);
    return () => void this.#entries.delete(entry);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** In the order in which they were added, without those that are taken off meanwhile. */
  *[Symbol.iterator](): IterableIterator<(event: Event) => void> {
    for (const { listener } of this.#entries) yield listener;
  }
}
