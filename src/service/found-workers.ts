/** Remembers which workers a client could not use, and why. */
import { CudaIpcError, hasCode } from "../base/errors.js";
import type { FoundOffer } from "./service-names.js";

/** Instead of a worker, if the bridge could offer none. */
export const ELSEWHERE = "other machines";

/** Workers whose errors the message quotes. The cause has all of them. */
const TOLD_MAX = 3;

/** Why each worker that was found could not be used, for the timeout error. */
export class FoundWorkers {
  readonly #unusable = new Map<string, unknown>();
  readonly #socketPath: string;
  /** Why the hub could not be asked the last time. */
  #lookFailure: unknown;

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
  }

  /** A look has begun, and found these workers. */
  see(workers: ReadonlySet<string>): void {
    this.#lookFailure = undefined;
    // The bridge has not been asked again yet.
    for (const worker of this.#unusable.keys())
      if (worker !== ELSEWHERE && !workers.has(worker)) this.#unusable.delete(worker);
  }

  /**
   * Offers of workers that were refused before come last, so that the others have a turn. Before
   * that, users take turns: one may make any number of offers that say nothing.
   */
  bestFirst<Offer extends FoundOffer>(
    offers: readonly Offer[],
    userOf: (offer: Offer) => number | undefined,
  ): Offer[] {
    const turns = new Map<number | undefined, number>();
    const ranked = offers.map((offer) => {
      const uid = userOf(offer);
      const turn = turns.get(uid) ?? 0;
      turns.set(uid, turn + 1);
      return { offer, turn, wasRefused: this.#unusable.has(offer.worker) ? 1 : 0 };
    });
    return ranked
      .sort((one, other) => one.wasRefused - other.wasRefused || one.turn - other.turn)
      .map(({ offer }) => offer);
  }

  refused(worker: string, error: unknown): void {
    // An offer has one client ever. It may have been this one, which then knows more.
    if (hasCode(error, "READERS_FULL") && this.#unusable.has(worker)) return;
    this.#unusable.set(worker, error);
  }

  usable(worker: string): void {
    this.#unusable.delete(worker);
  }

  /** The worker has no open offer now. */
  hasNoOffer(worker: string): void {
    const found = "it has no free offer: it has clientsMax clients, is closing, or makes one now";
    const advice = "Start another worker, or raise clientsMax.";
    const message = `Cannot use worker "${worker}": ${found}. ${advice}`;
    this.#unusable.set(worker, new CudaIpcError("READERS_FULL", message));
  }

  lookFailed(error: unknown): void {
    this.#lookFailure = error;
  }

  /** @param attempt in words: `request from service "double"` */
  timedOut(attempt: string, timeoutMs: number): CudaIpcError {
    const errors =
      this.#lookFailure === undefined ? [...this.#unusable.values()] : [this.#lookFailure];
    const where = `; the hub is at ${this.#socketPath}`;
    if (errors.length === 0) {
      const found = `no worker was found within ${timeoutMs} ms${where}`;
      return new CudaIpcError("TIMEOUT", `Cannot ${attempt}: ${found}`);
    }
    const what =
      this.#lookFailure === undefined
        ? `none of ${errors.length} workers could be used within ${timeoutMs} ms`
        : `no worker was found within ${timeoutMs} ms, because the hub did not list its names`;
    const told = errors.slice(0, TOLD_MAX).map(wordsOf);
    if (errors.length > TOLD_MAX) told.push(`and ${errors.length - TOLD_MAX} more`);
    const only = errors.length === 1 ? errors[0] : undefined;
    return new CudaIpcError("TIMEOUT", `Cannot ${attempt}: ${what}: ${told.join("; ")}${where}`, {
      cause: only ?? new AggregateError(errors, what),
      remedy: only instanceof CudaIpcError ? only.remedy : undefined,
    });
  }
}

function wordsOf(error: unknown): string {
  if (error instanceof CudaIpcError) return `${error.code}: ${error.message}`;
  return String(error);
}
