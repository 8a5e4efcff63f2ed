/**
 * Reports objects that were garbage-collected without being closed, and closes them.
 *
 * WHY: objects are registered only after one turn of the event loop. Registering takes 2.7 us of
 * the 4 us of an allocation from a pool, and most such objects are closed before.
 */

/** Beyond this many new objects they are registered at once, so one long turn does not keep all. */
const FRESH_MAX = 256;

interface Watched {
  readonly open: boolean;
}

export class LeakWatch<Owner extends Watched, Held> {
  readonly #registry: FinalizationRegistry<Held>;
  #fresh: { readonly owner: Owner; readonly held: Held }[] = [];

  /** @param report reports the leak and closes the object; it must not throw */
  constructor(report: (held: Held) => void) {
    this.#registry = new FinalizationRegistry(report);
  }

  /** @param held what `report` needs to close the object; must not reference the owner */
  watch(owner: Owner, held: Held): void {
    if (this.#fresh.length === 0) setImmediate(this.#settle);
    else if (this.#fresh.length >= FRESH_MAX) this.#settle();
    this.#fresh.push({ owner, held });
  }

  /** Call it when the owner is closed. */
  unwatch(owner: Owner): void {
    this.#registry.unregister(owner);
  }

  readonly #settle = (): void => {
    const fresh = this.#fresh;
    this.#fresh = [];
    for (const { owner, held } of fresh)
      if (owner.open) this.#registry.register(owner, held, owner);
  };
}
