/** Counts what the other side of a link still has to do: answer, send bytes, take bytes. */

export class Debt {
  #owed = 0;
  /** When the other side last gave or took something that it owed, or began to owe. */
  #paidMs = 0;

  begin(): void {
    if (this.#owed === 0) this.paid();
    this.#owed += 1;
  }

  end(): void {
    this.#owed -= 1;
  }

  paid(): void {
    this.#paidMs = performance.now();
  }

  /** When it will have given and taken nothing for so long, although it owes something. */
  overdueInMs(nowMs: number, limitMs: number): number {
    return this.#owed === 0 ? Number.POSITIVE_INFINITY : this.#paidMs + limitMs - nowMs;
  }
}
