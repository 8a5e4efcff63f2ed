/**
 * Reports objects that were garbage-collected without being closed, and closes them.
 *
 * WHY: objects are registered only after one turn of the event loop. Registering takes 2.7 us of
 * the 4 us of an allocation from a pool, and most such objects are closed before. An object that
 * is closed before the next one is watched costs a few nanoseconds.
 */

/** Beyond this many new objects they are registered at once, so one long turn does not keep all. */
const FRESH_MAX = 256;

interface Watched {
  readonly open: boolean;
}

export class LeakWatch<Owner extends Watched, Held> {
  readonly #registry: FinalizationRegistry<Held>;
  /** Owners, and what each of them holds. */
  #fresh: Owner[] = [];
  #held: Held[] = [];

  /** @param report reports the leak and closes the object; it must not throw */
  constructor(report: (held: Held) => void) {
    this.#registry = new FinalizationRegistry(report);
  }

  /** @param held what `report` needs to close the object; must not reference the owner */
  watch(owner: Owner, held: Held): void {
    let index = this.#fresh.length;
    if (index === 0) setImmediate(this.#settle);
    else if (this.#fresh[index - 1]?.open === false) index -= 1;
    else if (index >= FRESH_MAX) {
      this.#settle();
      index = 0;
    }
    this.#fresh[index] = owner;
    this.#held[index] = held;
  }

  /** Call it when the owner is closed. */
  unwatch(owner: Owner): void {
    this.#registry.unregister(owner);
  }

  readonly #settle = (): void => {
    const [fresh, held] = [this.#fresh, this.#held];
    this.#fresh = [];
    this.#held = [];
    for (const [index, owner] of fresh.entries())
      if (owner.open) this.#registry.register(owner, held[index] as Held, owner);
  };
}
