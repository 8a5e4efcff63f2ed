/**
 * A stream of the host device: a queue whose operations run in order on the event loop, step by
 * step.
 *
 * Small work on an idle stream runs within the call that enqueues it. Other work is scheduled:
 *   ready              setImmediate, which keeps the process alive until the work is done
 *   waiting, at first  setImmediate for SPIN_MS
 *   waiting, later     timers of 1 ms growing to 4 ms. They do not keep the process alive, as a
 *                      pending wait on a GPU does not. A caller that awaits the stream polls
 *                      `isIdle`, which keeps the process alive and also makes progress.
 */
import { CudaIpcError } from "../../base/errors.js";
import type { DriverStream } from "../gpu-driver.js";
import { type HostOperation, STEP_BYTES_MAX } from "./host-operations.js";

const INLINE_BYTES_MAX = 256 * 1024;
const SPIN_MS = 2;
const TIMER_MS_MAX = 4;

type Pending = { readonly kind: "immediate"; readonly handle: NodeJS.Immediate } | TimerPending;
type TimerPending = { readonly kind: "timer"; readonly handle: NodeJS.Timeout };

export class HostStream implements DriverStream {
  readonly ordinal = 0;
  readonly #queue: HostOperation[] = [];
  #failure: { readonly error: unknown } | undefined;
  #destroyed = false;
  #pending: Pending | undefined;
  /** When the operation at the head was first found waiting. */
  #waitingSinceMs: number | undefined;
  #timersUsed = 0;

  enqueue(operation: HostOperation): void {
    this.#check();
    this.#queue.push(operation);
    const alone = this.#queue.length === 1;
    if (alone && operation.byteLength <= INLINE_BYTES_MAX) this.#work();
    this.#schedule();
  }

  /** Throws the error of a failed operation, on every call from then on, as a lost context does. */
  isIdle(): boolean {
    this.#check();
    this.#work();
    this.#schedule();
    this.#check();
    return this.#queue.length === 0;
  }

  /** Ends the stream and drops unfinished work. */
  destroy(): void {
    if (this.#destroyed) throw this.#closed();
    this.abandon();
  }

  /** Like `destroy`, for a driver that is closing. A second call does nothing. */
  abandon(): void {
    this.#destroyed = true;
    this.#drop();
    this.#cancel();
  }

  #check(): void {
    if (this.#destroyed) throw this.#closed();
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Runs operations until one waits or the budget of a step is used up. */
  #work(): void {
    let budgetBytes = STEP_BYTES_MAX;
    try {
      for (
        let head = this.#queue[0];
        head !== undefined && budgetBytes > 0;
        head = this.#queue[0]
      ) {
        const result = head.step();
        if (result === "waiting") {
          this.#waitingSinceMs ??= performance.now();
          return;
        }
        this.#waitingSinceMs = undefined;
        this.#timersUsed = 0;
        budgetBytes -= Math.min(head.byteLength, STEP_BYTES_MAX);
        if (result === "done") this.#queue.shift();
      }
    } catch (error) {
      this.#failure = { error };
      this.#drop();
      this.#waitingSinceMs = undefined;
    }
  }

  #drop(): void {
    for (const operation of this.#queue.splice(0)) operation.dropped?.();
  }

  #schedule(): void {
    if (this.#queue.length === 0) {
      this.#cancel();
      return;
    }
    const waitedMs =
      this.#waitingSinceMs === undefined ? 0 : performance.now() - this.#waitingSinceMs;
    const kind = waitedMs < SPIN_MS ? "immediate" : "timer";
    if (this.#pending?.kind === kind) return;
    this.#cancel();
    if (kind === "immediate") {
      this.#pending = { kind, handle: setImmediate(this.#goOn) };
      return;
    }
    this.#timersUsed += 1;
    const handle = setTimeout(this.#goOn, Math.min(this.#timersUsed, TIMER_MS_MAX));
    handle.unref();
    this.#pending = { kind, handle };
  }

  readonly #goOn = (): void => {
    this.#pending = undefined;
    this.#work();
    this.#schedule();
  };

  #cancel(): void {
    if (this.#pending?.kind === "immediate") clearImmediate(this.#pending.handle);
    if (this.#pending?.kind === "timer") clearTimeout(this.#pending.handle);
    this.#pending = undefined;
  }

  #closed(): CudaIpcError {
    return new CudaIpcError("CLOSED", "Cannot use a stream of host: it was destroyed");
  }
}
