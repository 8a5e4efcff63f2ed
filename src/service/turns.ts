/** A lock with a queue, because a channel loans one slot at a time. */

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export class Turns {
  readonly #waiting: Waiting[] = [];
  #taken = false;
  #reason: Error | undefined;

  get areFree(): boolean {
    return !this.#taken;
  }

  /**
   * Resolves when it is the caller's turn. Call `end` to pass it on.
   * @throws the error that was given to `close`
   */
  async take(): Promise<void> {
    if (this.#reason !== undefined) throw this.#reason;
    if (this.tryTake()) return;
    await new Promise<void>((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  tryTake(): boolean {
    if (this.#taken || this.#reason !== undefined) return false;
    this.#taken = true;
    return true;
  }

  end(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#taken = false;
    else next.resolve();
  }

  /** Rejects all waiters. Nobody gets a turn any more. */
  close(reason: Error): void {
    this.#reason ??= reason;
    for (const { reject } of this.#waiting.splice(0)) reject(reason);
  }
}
