/**
 * A stream of the host device: a queue whose operations are done in order on the event loop, a step at a time.
 *
 * Small work on an idle stream is done within the call that enqueues it. Anything else goes on between other events:
 *   ready to go on     setImmediate, which keeps the process alive: what was enqueued and can be done is done
 *   waiting, at first  setImmediate for SPIN_MS
 *   waiting, later     timers of 1 ms growing to 4 ms that do not keep the process alive, as a pending wait on a GPU does not.
 *                      Who awaits the stream keeps it alive by asking `isIdle`, and each question makes progress too.
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
  /** When the wait at the head was first found not to be over, and how often timers have looked since. */
  #waitingSinceMs: number | undefined;
  #timersUsed = 0;

  enqueue(operation: HostOperation): void {
    this.#check();
    this.#queue.push(operation);
    const alone = this.#queue.length === 1;
    if (alone && operation.byteLength <= INLINE_BYTES_MAX) this.#work();
    this.#schedule();
  }

  /** Throws what an operation failed with, from then on always, as a lost context does. */
  isIdle(): boolean {
    this.#check();
    this.#work();
    this.#schedule();
    this.#check();
    return this.#queue.length === 0;
  }

  /** Ends the stream; what was not done yet never will be. */
  destroy(): void {
    if (this.#destroyed) throw this.#closed();
    this.abandon();
  }

  /** As `destroy`, for a driver that is closed; a second time it does nothing. */
  abandon(): void {
    this.#destroyed = true;
    this.#drop();
    this.#cancel();
  }

  #check(): void {
    if (this.#destroyed) throw this.#closed();
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Does operations until one waits or the time of a step is used up. */
  #work(): void {
    let budgetBytes = STEP_BYTES_MAX;
    try {
      for (let head = this.#queue[0]; head !== undefined && budgetBytes > 0; head = this.#queue[0]) {
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
    const waitedMs = this.#waitingSinceMs === undefined ? 0 : performance.now() - this.#waitingSinceMs;
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
