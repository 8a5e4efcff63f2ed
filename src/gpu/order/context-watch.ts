/**
 * Detects that this process lost its context on a device, even if its own calls did not fail. Under
 * MPS the context is lost when the kernel of any other client is killed or faults.
 *
 * WHY: the check records an event on a stream of its own. The driver may answer calls without work
 * for the GPU from memory, and the waits of other streams may never end.
 */
import { hasCode } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { DriverEvent } from "../../driver/event-calls.js";
import type { DriverStream, GpuDriver } from "../../driver/gpu-driver.js";

/** How often the context is checked while there are listeners. */
const LOOK_MS = 100;

interface Pulse {
  readonly stream: DriverStream;
  readonly event: DriverEvent;
}

export type LossListener = (error: Error) => void;

export class ContextWatch {
  readonly #driver: GpuDriver;
  readonly #ordinal: number;
  readonly #isUsed: () => boolean;
  readonly #listeners = new Set<LossListener>();
  #pulse: Pulse | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** @param isUsed whether the process uses the device; before that it has no context to lose */
  constructor(driver: GpuDriver, ordinal: number, isUsed: () => boolean) {
    this.#driver = driver;
    this.#ordinal = ordinal;
    this.#isUsed = isUsed;
  }

  /**
   * Checks once, in a few microseconds. The second check after a loss detects it, if not the first.
   * @throws DEVICE_LOST
   */
  check(): void {
    if (!this.#driver.losesContext || !this.#isUsed()) return;
    this.#pulse ??= this.#begin();
    const { event, stream } = this.#pulse;
    if (this.#driver.isEventDone(event)) this.#driver.recordEvent(event, stream);
  }

  /** Calls the listener once if the context is lost. Returns a function that removes it. */
  onLost(listener: LossListener): () => void {
    this.#listeners.add(listener);
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#rest();
    };
  }

  close(): void {
    this.#rest();
    const pulse = this.#pulse;
    if (pulse === undefined) return;
    this.#pulse = undefined;
    releaseAll([
      () => this.#driver.destroyEvent(pulse.event),
      () => this.#driver.destroyStream(pulse.stream),
    ]);
  }

  #begin(): Pulse {
    return acquireIn((scope) => {
      const stream = scope.own(this.#driver.createStream(this.#ordinal), (it) =>
        this.#driver.destroyStream(it),
      );
      return { stream, event: this.#driver.createEvent(this.#ordinal) };
    });
  }

  #look(): void {
    try {
      this.check();
    } catch (error) {
      // Other errors are not a loss. For example, the first check may run out of memory, and the
      // next one may succeed.
      if (!hasCode(error, "DEVICE_LOST")) return;
      const listeners = [...this.#listeners];
      this.#listeners.clear();
      this.#rest();
      releaseAll(listeners.map((listener) => () => listener(error)));
    }
  }

  #rest(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
