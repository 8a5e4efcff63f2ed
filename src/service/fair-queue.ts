/**
 * A queue that takes one item of each source in turn, so a busy client does not hold up the others.
 */

export class FairQueue<Source, Item> {
  /** In the order of their turns. */
  readonly #bySource = new Map<Source, Item[]>();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(source: Source, item: Item): void {
    const items = this.#bySource.get(source);
    if (items === undefined) this.#bySource.set(source, [item]);
    else items.push(item);
    this.#length += 1;
  }

  shift(): Item | undefined {
    for (const [source, items] of this.#bySource) {
      const item = items.shift();
      this.#bySource.delete(source);
      if (items.length > 0) this.#bySource.set(source, items);
      this.#length -= 1;
      return item;
    }
    return undefined;
  }

  /** Returns whether the item was in the queue. */
  delete(source: Source, item: Item): boolean {
    const items = this.#bySource.get(source);
    const index = items?.indexOf(item) ?? -1;
    if (items === undefined || index < 0) return false;
    items.splice(index, 1);
    if (items.length === 0) this.#bySource.delete(source);
    this.#length -= 1;
    return true;
  }

  /** Removes and returns all items. */
  clear(): Item[] {
    const items = [...this.#bySource.values()].flat();
    this.#bySource.clear();
    this.#length = 0;
    return items;
  }
}
