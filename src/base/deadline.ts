/** A timeout and an AbortSignal in one object. Every call that waits takes these options. */
import { CudaIpcError } from "./errors.js";
import { checkMilliseconds, checkSignal } from "./option-checks.js";

export interface WaitOptions {
  /** Ends the wait with `ABORTED`. */
  readonly signal?: AbortSignal | undefined;
  /** Ends the wait with `TIMEOUT`; `Infinity` never does. */
  readonly timeoutMs?: number | undefined;
}

/** What kept the step waiting that each timeout ended. */
const reasons = new WeakMap<CudaIpcError, string>();

export class Deadline {
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly #what: string;
  readonly #why: (() => string | undefined) | undefined;
  readonly #endMs: number;

  /**
   * @param what the attempt in words, for the message: `open "frame"`
   * @param why called at the timeout: says what keeps the call waiting
   */
  constructor(
    what: string,
    options: WaitOptions,
    defaultTimeoutMs: number,
    why?: () => string | undefined,
  ) {
    const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    checkMilliseconds("timeoutMs", timeoutMs);
    // Check first: with an invalid signal the wait could not be cleaned up.
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

  /** True when the time is up, also for a timer that fires a millisecond early. */
  get isOver(): boolean {
    return this.remainingMs <= TIMER_EARLY_MS;
  }

  /** Throws `ABORTED` or `TIMEOUT` if the wait is over. */
  check(): void {
    if (this.signal?.aborted) throw this.aborted();
    if (this.remainingMs === 0) throw this.timedOut();
  }

  /** The same attempt without a limit, for a step that must be finished once it has begun. */
  unlimited(): Deadline {
    return new Deadline(this.#what, {}, Number.POSITIVE_INFINITY);
  }

  /** The same attempt and signal with another limit, from now on. @param why as in `new` */
  withTimeout(timeoutMs: number, why: () => string): Deadline {
    return new Deadline(this.#what, { signal: this.signal, timeoutMs }, timeoutMs, why);
  }

  /** The remaining time as options for one step. Without a limit the step uses its own default. */
  rest(): WaitOptions {
    const isEndless = this.#endMs === Number.POSITIVE_INFINITY;
    return { signal: this.signal, timeoutMs: isEndless ? undefined : this.remainingMs };
  }

  /**
   * Returns the error of a step. If this deadline ended the step, the error names the whole
   * attempt, and says what kept the step waiting.
   */
  named(error: unknown): unknown {
    if (!(error instanceof CudaIpcError)) return error;
    const { code } = error;
    if (code === "TIMEOUT" && this.isOver) return this.timedOut(reasons.get(error), error);
    if (code === "ABORTED" && this.signal?.aborted) return this.aborted();
    return error;
  }

  /** @param found what kept the call waiting */
  timedOut(found = this.#why?.(), cause?: unknown): CudaIpcError {
    const message = `Cannot ${this.#what}: not done within ${this.timeoutMs} ms`;
    if (found === undefined || found === "") return new CudaIpcError("TIMEOUT", message, { cause });
    const error = new CudaIpcError("TIMEOUT", `${message}; ${found}`, { cause });
    reasons.set(error, found);
    return error;
  }

  aborted(): CudaIpcError {
    return new CudaIpcError("ABORTED", `Cannot ${this.#what}: aborted`, {
      cause: this.signal?.reason,
    });
  }

  /**
   * Waits for a promise until this deadline. If the deadline comes first, calls `onGiveUp` once,
   * which must take care of a late result.
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
      const waitOn = () => {
        const { remainingMs } = this;
        const onTime = remainingMs > MAX_TIMER_MS ? waitOn : () => giveUp(this.timedOut());
        timer = setTimeout(onTime, Math.min(remainingMs, MAX_TIMER_MS));
      };
      if (this.signal?.aborted) onAbort();
      else {
        this.signal?.addEventListener("abort", onAbort);
        if (this.#endMs !== Number.POSITIVE_INFINITY) waitOn();
      }
      // WHY always: the process would end if the promise failed later and nobody handled that.
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

/** Throws `ABORTED` if the signal was aborted before the call, even if the call would not wait. */
export function checkNotAborted(what: string, { signal }: WaitOptions): void {
  if (signal?.aborted) throw new Deadline(what, { signal }, Number.POSITIVE_INFINITY).aborted();
}

/** Timers count whole milliseconds of the event loop's clock. */
const TIMER_EARLY_MS = 1;

/** setTimeout fires at once for longer times. */
const MAX_TIMER_MS = 2 ** 31 - 1;
