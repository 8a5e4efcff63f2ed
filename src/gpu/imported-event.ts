/**
 * An event of another process as this one holds it, and a count of those who use it: the `Event`, and streams that were told to wait
 * for it. It ends with the last of them.
 */
import { CudaIpcError } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import type { DriverEvent } from "../driver/event-calls.js";
import type { Device } from "./device.js";
import type { ImportedMark } from "./export-marks.js";
import type { Exporter } from "./exporters.js";

/** Where an imported event comes from. */
interface EventOrigin {
  readonly exporter: Exporter;
  /** Of exporter and handle. */
  readonly key: string;
  /** Whether the exporter still has it. */
  readonly mark: ImportedMark;
}

export class ImportedEvent {
  readonly handle: DriverEvent;
  readonly key: string;
  readonly mark: ImportedMark;
  readonly #exporter: Exporter;
  readonly #device: Device;
  readonly #label: string;
  #users = 1;

  /** Takes over the driver's event and one use of the exporter; the first user is the caller. */
  constructor(device: Device, label: string, handle: DriverEvent, { exporter, key, mark }: EventOrigin) {
    device.retain();
    this.#device = device;
    this.#label = label;
    this.handle = handle;
    this.#exporter = exporter;
    this.key = key;
    this.mark = mark;
  }

  /** Counts one more user, who calls `release` once. */
  retain(): this {
    this.#users += 1;
    return this;
  }

  release(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    const device = this.#device;
    releaseAll([
      () => device.driver.destroyEvent(this.handle),
      () => device.exporters.release(this.#exporter),
      () => device.release(),
    ]);
  }

  /** @throws PEER_GONE where the exporter ended before the event was done, so that it never will be */
  refuseGone(): void {
    // WHY asked after the exporter was seen to end: the event may have been done just before.
    if (!this.#exporter.gone || this.#device.driver.isEventDone(this.handle)) return;
    const found = `process ${this.#exporter.identity.pid} ended before it was done`;
    throw new CudaIpcError("PEER_GONE", `Cannot wait for event "${this.#label}": ${found}`);
  }
}
