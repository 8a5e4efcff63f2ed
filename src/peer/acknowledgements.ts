/** How many have acknowledged, and those who wait until it is enough. */
import type { Deadline } from "../base/deadline.js";
import type { CudaIpcError } from "../base/errors.js";

interface Waiter {
  readonly count: number;
  resolve(): void;
  reject(reason: CudaIpcError): void;
}

export class Acknowledgements {
  readonly #waiters = new Set<Waiter>();
  #count = 0;
  #ended: CudaIpcError | undefined;

  get count(): number {
    return this.#count;
  }

  add(): void {
    this.#count += 1;
    for (const waiter of this.#waiters) if (this.#count >= waiter.count) waiter.resolve();
  }

  /** Resolves once there have been as many. */
  async reach(count: number, deadline: Deadline): Promise<void> {
    if (this.#count >= count) return;
    if (this.#ended !== undefined) throw this.#ended;
    deadline.check();
    let waiter: Waiter | undefined;
    const reached = new Promise<void>((resolve, reject) => {
      waiter = { count, resolve, reject };
      this.#waiters.add(waiter);
    });
    try {
      await deadline.race(reached, () => {});
    } finally {
      if (waiter !== undefined) this.#waiters.delete(waiter);
    }
  }

  /** No more will come. */
  end(reason: CudaIpcError): void {
    this.#ended ??= reason;
    for (const waiter of this.#waiters) waiter.reject(reason);
  }
}
