/**
 * Reports objects that were collected without having been closed, and closes them. Registering with the collector takes longer than all
 * else about a small object (2.7 us of 4 for an allocation in a pool), so that only what outlives a turn of the event loop is registered.
 */

/** More objects than this are looked through at once, so that one long turn does not keep all that it made. */
const FRESH_MAX = 256;

interface Watched {
  readonly open: boolean;
}

export class LeakWatch<Owner extends Watched, Held> {
  readonly #registry: FinalizationRegistry<Held>;
  #fresh: { readonly owner: Owner; readonly held: Held }[] = [];

  /** @param report says so and closes; it throws nothing */
  constructor(report: (held: Held) => void) {
    this.#registry = new FinalizationRegistry(report);
  }

  /** @param held what is needed to close it, without a reference to the owner */
  watch(owner: Owner, held: Held): void {
    if (this.#fresh.length === 0) setImmediate(this.#settle);
    else if (this.#fresh.length >= FRESH_MAX) this.#settle();
    this.#fresh.push({ owner, held });
  }

  /** For an owner that was closed. */
  unwatch(owner: Owner): void {
    this.#registry.unregister(owner);
  }

  readonly #settle = (): void => {
    const fresh = this.#fresh;
    this.#fresh = [];
    for (const { owner, held } of fresh) if (owner.open) this.#registry.register(owner, held, owner);
  };
}
