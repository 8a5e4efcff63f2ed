/** Decides whether an attempt to reach a hub keeps the process alive, also in the middle of it. */

interface Referable {
  ref(): unknown;
  unref(): unknown;
}

export class KeepAlive {
  readonly #held = new Set<Referable>();
  #referenced = true;

  setReferenced(referenced: boolean): void {
    this.#referenced = referenced;
    for (const it of this.#held) this.#apply(it);
  }

  /** Makes it follow `setReferenced`, until `release`. */
  hold(it: Referable): void {
    this.#held.add(it);
    this.#apply(it);
  }

  release(it: Referable): void {
    this.#held.delete(it);
  }

  #apply(it: Referable): void {
    if (this.#referenced) it.ref();
    else it.unref();
  }
}
