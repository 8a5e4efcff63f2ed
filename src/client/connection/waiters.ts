/** A list of waiters for a repeated event. Each waits no longer than its own deadline. */
import type { Deadline } from "../../base/deadline.js";

interface Waiter<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

export class Waiters<T> {
  readonly #waiting = new Set<Waiter<T>>();

  /** Resolves with the next value. @throws TIMEOUT, ABORTED, or the reason of `reject` */
  wait(deadline: Deadline): Promise<T> {
    let waiter: Waiter<T> | undefined;
    const next = new Promise<T>((resolve, reject) => {
      waiter = { resolve, reject };
      this.#waiting.add(waiter);
    });
    return deadline.race(next, () => {
      if (waiter !== undefined) this.#waiting.delete(waiter);
    });
  }

  /** Resumes all waiters, in the order in which they came. */
  resolve(value: T): void {
    for (const { resolve } of this.#take()) resolve(value);
  }

  reject(reason: unknown): void {
    for (const { reject } of this.#take()) reject(reason);
  }

  #take(): Waiter<T>[] {
    const all = [...this.#waiting];
    this.#waiting.clear();
    return all;
  }
}
