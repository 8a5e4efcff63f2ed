/**
 * Reuses a device's driver events and destroys them only with the device. Destroying an event that
 * another process imported is undefined, and drivers allow a limited number of shared events.
 */
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { releaseAll } from "../../base/scope.js";
import type { DriverEvent } from "../../driver/event-calls.js";
import type { GpuDriver } from "../../driver/gpu-driver.js";

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
    // WHY: recording an event again while its earlier recording is pending holds the stream back,
    // so only events that are done are reused.
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

  /**
   * WHY: the event goes to the end of the queue. The longer it rests, the more likely its importers
   * have noticed that it was closed.
   */
  put(event: DriverEvent): void {
    this.#free.push(event);
  }

  /** Destroys all events. Events in use must have been put back before. */
  close(): void {
    this.#count -= this.#free.length;
    releaseAll(this.#free.splice(0).map((event) => () => this.#driver.destroyEvent(event)));
  }
}
