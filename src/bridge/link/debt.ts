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

  /** Whether it has given and taken nothing for so long, although it owes something. */
  isOverdue(nowMs: number, limitMs: number): boolean {
    return this.#owed > 0 && nowMs - this.#paidMs >= limitMs;
  }
}
