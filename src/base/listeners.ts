/** The listeners of one event. */
import { checkFunction } from "./option-checks.js";

export class Listeners<Event> {
  // WHY entries: a function that was added twice is removed once at a time.
  readonly #entries = new Set<{ readonly listener: (event: Event) => void }>();

  /** Returns a function that removes the listener. @throws TypeError */
  add(listener: (event: Event) => void): () => void {
    checkFunction("listener", listener);
    const entry = { listener };
    this.#entries.add(entry);
    return () => void this.#entries.delete(entry);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** In the order of their addition, without those that are removed meanwhile. */
  *[Symbol.iterator](): IterableIterator<(event: Event) => void> {
    for (const { listener } of this.#entries) yield listener;
  }
}
