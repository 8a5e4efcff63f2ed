/**
 * A time limit and an AbortSignal as one thing that can be asked and waited with.
 * Everything that is awaited takes these options.
 */
import { CudaIpcError } from "./errors.js";
import { checkMilliseconds, checkSignal } from "./option-checks.js";

export interface WaitOptions {
  /** Ends the wait with `ABORTED`. */
  readonly signal?: AbortSignal | undefined;
  /** Ends the wait with `TIMEOUT`; `Infinity` waits for ever. */
  readonly timeoutMs?: number | undefined;
}

export class Deadline {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly #what: string;
  readonly #why: (() => string | undefined) | undefined;
  readonly #endMs: number;

  /**
   * @param what the attempt in words, for the message: `open "frame"`
   * @param why asked once the time is up: who or what it is that keeps this waiting, in words
   */
  constructor(what: string, options: WaitOptions, defaultTimeoutMs: number, why?: () => string | undefined) {
    const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    checkMilliseconds("timeoutMs", timeoutMs);
    // WHY before anything is begun: a wait that cannot be listened to could not be cleaned up
    // after.
    if (options.signal !== undefined) checkSignal("signal", options.signal);
    this.timeoutMs = timeoutMs;
    this.signal = options.signal;
    this.#what = what;
    this.#why = why;
    this.#endMs = performance.now() + timeoutMs;
  }

  get remainingMs(): number {
    return Math.max(0, this.#endMs - performance.now());
  }

  /** Whether the time is up, also as seen by a timer, which may fire a millisecond early. */
  get isOver(): boolean {
    return this.remainingMs <= TIMER_EARLY_MS;
  }

  /** Throws `ABORTED` or `TIMEOUT` when the wait is over. */
  check(): void {
    if (this.signal?.aborted) throw this.aborted();
    if (this.remainingMs === 0) throw this.timedOut();
  }

  /** The same attempt without an end, for what must be finished once it was begun. */
  unlimited(): Deadline {
    return new Deadline(this.#what, {}, Number.POSITIVE_INFINITY);
  }

  /** The remaining time, as options for one step. Without a limit the step uses its own default. */
  rest(): WaitOptions {
    const isEndless = this.#endMs === Number.POSITIVE_INFINITY;
    return { signal: this.signal, timeoutMs: isEndless ? undefined : this.remainingMs };
  }

  /** The error of a step; in the words of the whole attempt if this deadline ended the step. */
  named(error: unknown): unknown {
    const code = error instanceof CudaIpcError ? error.code : undefined;
    if (code === "TIMEOUT" && this.isOver) return this.timedOut(undefined, error);
    if (code === "ABORTED" && this.signal?.aborted) return this.aborted();
    return error;
  }

  /** @param found who or what it was that kept this waiting, in words */
  timedOut(found = this.#why?.(), cause?: unknown): CudaIpcError {
    const why = found === undefined || found === "" ? "" : `; ${found}`;
    return new CudaIpcError("TIMEOUT", `Cannot ${this.#what}: not done within ${this.timeoutMs} ms${why}`, { cause });
  }

  aborted(): CudaIpcError {
    return new CudaIpcError("ABORTED", `Cannot ${this.#what}: aborted`, { cause: this.signal?.reason });
  }

  /**
   * Waits for a promise no longer than this deadline. `onGiveUp` runs once when the wait ends before the promise does;
   * what the promise brings later is then the concern of `onGiveUp`.
   */
  race<T>(promise: Promise<T>, onGiveUp: () => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const finish = () => {
        clearTimeout(timer);
        this.signal?.removeEventListener("abort", onAbort);
      };
      const giveUp = (error: CudaIpcError) => {
        finish();
        reject(error);
        onGiveUp();
      };
      const onAbort = () => giveUp(this.aborted());
      if (this.signal?.aborted) onAbort();
      else {
        this.signal?.addEventListener("abort", onAbort);
        if (this.#endMs !== Number.POSITIVE_INFINITY) {
          timer = setTimeout(() => giveUp(this.timedOut()), Math.min(this.remainingMs, MAX_TIMER_MS));
        }
      }
      // WHY also where it is given up at once: a promise that fails later, and nobody waits for, would end the process.
      promise.then(
        (value) => {
          finish();
          resolve(value);
        },
        (error: unknown) => {
          finish();
          reject(error);
        },
      );
    });
  }
}

/** Throws `ABORTED` where the signal was aborted before the attempt: also where it would not have to wait. */
export function checkNotAborted(what: string, { signal }: WaitOptions): void {
  if (signal?.aborted) throw new Deadline(what, { signal }, Number.POSITIVE_INFINITY).aborted();
}

/** Timers count whole milliseconds of the event loop's own clock. */
const TIMER_EARLY_MS = 1;

/** setTimeout fires at once for anything larger. */
const MAX_TIMER_MS = 2 ** 31 - 1;
