/** The resources of a test, released at its end, newest first. */
export class Disposables {
  readonly #all: { [Symbol.dispose](): void }[] = [];

  add<T extends { [Symbol.dispose](): void }>(value: T): T {
    this.#all.push(value);
    return value;
  }

  end(): void {
    for (const value of this.#all.splice(0).reverse()) value[Symbol.dispose]();
  }
}
