/** What a search found of each worker that it could not use, for who has waited for one in vain: why not, and what can be done about it. */
import { CudaIpcError } from "../base/errors.js";

/** Workers that a message has the words of; all are in its cause. */
const TOLD_MAX = 3;

export class FoundWorkers {
  readonly #unusable = new Map<string, unknown>();
  /** Why the hub could not be asked, the last time. */
  #lookFailure: unknown;

  /** A look has begun, and these are there. */
  see(workers: ReadonlySet<string>): void {
    this.#lookFailure = undefined;
    for (const worker of this.#unusable.keys()) if (!workers.has(worker)) this.#unusable.delete(worker);
  }

  refused(worker: string, error: unknown): void {
    this.#unusable.set(worker, error);
  }

  usable(worker: string): void {
    this.#unusable.delete(worker);
  }

  /** It makes no offer now. */
  hasNoOffer(worker: string): void {
    const found = "it makes no offer: it has as many clients as it takes, is closing, or has not looked yet";
    const message = `Cannot use worker "${worker}": ${found}; start another worker, or give it a larger clientsMax`;
    this.#unusable.set(worker, new CudaIpcError("READERS_FULL", message));
  }

  lookFailed(error: unknown): void {
    this.#lookFailure = error;
  }

  /** @param attempt as in "request from service "double"" */
  timedOut(attempt: string, timeoutMs: number): CudaIpcError {
    const errors = this.#lookFailure === undefined ? [...this.#unusable.values()] : [this.#lookFailure];
    if (errors.length === 0) {
      return new CudaIpcError("TIMEOUT", `Cannot ${attempt}: no worker was found within ${timeoutMs} ms`);
    }
    const what =
      this.#lookFailure === undefined
        ? `no worker that was found could be used within ${timeoutMs} ms, of ${errors.length}`
        : `no worker was found within ${timeoutMs} ms, since the hub did not say what there is`;
    const told = errors.slice(0, TOLD_MAX).map(wordsOf);
    if (errors.length > TOLD_MAX) told.push(`and ${errors.length - TOLD_MAX} more`);
    const cause = errors.length === 1 ? errors[0] : new AggregateError(errors, what);
    return new CudaIpcError("TIMEOUT", `Cannot ${attempt}: ${what}: ${told.join("; ")}`, { cause });
  }
}

function wordsOf(error: unknown): string {
  if (error instanceof CudaIpcError) return `${error.code}: ${error.message}`;
  return String(error);
}
