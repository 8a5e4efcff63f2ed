/** The names that are taken, in order, so that a page of them costs no more than what is on it. */

export class SortedNames {
  #names: string[] = [];

  /** These, which are in any order. WHY at once: to add one after the other takes a large hub's start for ever. */
  static of(names: Iterable<string>): SortedNames {
    const sorted = new SortedNames();
    // The order of code units, as of `<`.
    sorted.#names = [...names].sort();
    return sorted;
  }

  get size(): number {
    return this.#names.length;
  }

  add(name: string): void {
    this.#names.splice(this.#placeOf(name), 0, name);
  }

  delete(name: string): void {
    const place = this.#placeOf(name);
    if (this.#names[place] === name) this.#names.splice(place, 1);
  }

  clear(): void {
    this.#names = [];
  }

  /** Those that follow `after`, all where it is undefined. They do not change meanwhile. */
  *after(after: string | undefined): IterableIterator<string> {
    let place = after === undefined ? 0 : this.#placeOf(after);
    if (this.#names[place] === after) place += 1;
    for (let name = this.#names[place]; name !== undefined; name = this.#names[place]) {
      yield name;
      place += 1;
    }
  }

  /** Where it is, or would be. */
  #placeOf(name: string): number {
    let low = 0;
    let high = this.#names.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#names[middle] as string) < name) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
