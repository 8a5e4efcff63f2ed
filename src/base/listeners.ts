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

  /** Calls all. The error of one that throws is thrown in a turn of its own, after the others. */
  call(event: Event): void {
    for (const listener of this) {
      try {
        listener(event);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }

  /** In the order of their addition, without those that are removed meanwhile. */
  *[Symbol.iterator](): IterableIterator<(event: Event) => void> {
    for (const { listener } of this.#entries) yield listener;
  }
}
