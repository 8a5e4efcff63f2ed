/**
 * Finds out that this process's context on a device is lost although nothing of its own failed: under MPS the context goes with that
 * of any other client whose kernel is killed or faults.
 *
 * WHY a stream with work of its own: a call that gives the GPU nothing to do may be answered without a look at the GPU, and waits of
 * other streams may last for good.
 */
import { hasCode } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { DriverEvent } from "../driver/event-calls.js";
import type { DriverStream, GpuDriver } from "../driver/gpu-driver.js";

/** How often somebody who listens is told of a loss, at the latest. */
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

  /** @param isUsed whether anything of this process lies on the device: before, there is no context to be lost */
  constructor(driver: GpuDriver, ordinal: number, isUsed: () => boolean) {
    this.#driver = driver;
    this.#ordinal = ordinal;
    this.#isUsed = isUsed;
  }

  /**
   * Looks once, in a few microseconds. A loss is found by the second look after it, if not by the first.
   * @throws DEVICE_LOST
   */
  check(): void {
    if (!this.#driver.losesContext || !this.#isUsed()) return;
    this.#pulse ??= this.#begin();
    const { event, stream } = this.#pulse;
    if (this.#driver.isEventDone(event)) this.#driver.recordEvent(event, stream);
  }

  /** @returns what ends it */
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
    releaseAll([() => this.#driver.destroyEvent(pulse.event), () => this.#driver.destroyStream(pulse.stream)]);
  }

  #begin(): Pulse {
    return acquireIn((scope) => {
      const stream = scope.own(this.#driver.createStream(this.#ordinal), (it) => this.#driver.destroyStream(it));
      return { stream, event: this.#driver.createEvent(this.#ordinal) };
    });
  }

  #look(): void {
    try {
      this.check();
    } catch (error) {
      // WHY only this one: a lack of memory for the first look, say, is no loss, and the next look may succeed.
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
