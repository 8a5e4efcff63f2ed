/**
 * A map with texts as keys that answers in the order of its keys, a page at a time. Keys are sorted
 * again only if some have come or gone since the last answer.
 */

export class SortedMap<V> extends Map<string, V> {
  #sorted: string[] = [];
  /** Keys that `#sorted` lacks, unless they have gone again. */
  readonly #added = new Set<string>();
  /** Whether `#sorted` has keys that have gone. */
  #hasRemoved = false;

  override set(key: string, value: V): this {
    if (!this.has(key)) this.#added.add(key);
    return super.set(key, value);
  }

  override delete(key: string): boolean {
    if (!super.delete(key)) return false;
    // One that came back after it was removed is in both.
    this.#added.delete(key);
    this.#hasRemoved = true;
    return true;
  }

  /** The values whose keys come after this one, in the order of their keys. */
  *after(key: string | undefined): Generator<V> {
    const sorted = this.#current();
    for (let at = positionAfter(sorted, key); at < sorted.length; at += 1)
      yield this.get(sorted[at] as string) as V;
  }

  #current(): readonly string[] {
    if (this.#hasRemoved)
      this.#sorted = this.#sorted.filter((it) => this.has(it) && !this.#added.has(it));
    if (this.#added.size > 0) {
      for (const key of this.#added) this.#sorted.push(key);
      // V8 merges runs that are sorted already, so this costs about one look at each key.
      this.#sorted.sort();
    }
    this.#added.clear();
    this.#hasRemoved = false;
    return this.#sorted;
  }
}

/** The first position whose key is greater. */
function positionAfter(sorted: readonly string[], key: string | undefined): number {
  if (key === undefined) return 0;
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as string) <= key) low = middle + 1;
    else high = middle;
  }
  return low;
}
