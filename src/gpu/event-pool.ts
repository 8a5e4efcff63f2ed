/**
 * The driver's events of a device, used again and again and destroyed with the device: to others who imported an event, its being
 * destroyed is undefined, and drivers have room for a limited number of shared ones.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { releaseAll } from "../base/scope.js";
import type { DriverEvent } from "../driver/event-calls.js";
import type { GpuDriver } from "../driver/gpu-driver.js";

export class EventPool {
  readonly #driver: GpuDriver;
  readonly #ordinal: number;
  readonly #free: DriverEvent[] = [];
  #count = 0;

  constructor(driver: GpuDriver, ordinal: number) {
    this.#driver = driver;
    this.#ordinal = ordinal;
  }

  /** @throws LIMIT_EXCEEDED */
  take(): DriverEvent {
    // WHY only what is done: recording an event again while an earlier recording is pending holds the stream back until then.
    const index = this.#free.findIndex((event) => this.#driver.isEventDone(event));
    if (index >= 0) return this.#free.splice(index, 1)[0] as DriverEvent;
    if (this.#count === limits.eventsPerDeviceMax) {
      const found = `${this.#count} are open, the limit (eventsPerDeviceMax)`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot create an event: ${found}; close some`);
    }
    const event = this.#driver.createEvent(this.#ordinal);
    this.#count += 1;
    return event;
  }

  /** WHY to the end of the queue: the longer an event rests, the likelier have its importers heard of its end. */
  put(event: DriverEvent): void {
    this.#free.push(event);
  }

  /** Destroys all; those in use have been put back. */
  close(): void {
    this.#count -= this.#free.length;
    releaseAll(this.#free.splice(0).map((event) => () => this.#driver.destroyEvent(event)));
  }
}
