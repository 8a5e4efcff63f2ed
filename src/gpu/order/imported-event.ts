/**
 * An imported event with a refcount of its users: the `Event`, and streams that wait for it. It is
 * destroyed with its last user.
 */
import { CudaIpcError } from "../../base/errors.js";
import { RefCounted } from "../../base/ref-counted.js";
import { releaseAll } from "../../base/scope.js";
import type { DriverEvent } from "../../driver/event-calls.js";
import type { Device } from "../device.js";
import type { ImportedMark } from "../memory/export-marks.js";
import type { Exporter } from "../memory/exporters.js";

interface EventOrigin {
  readonly exporter: Exporter;
  /** Identifies the exporter and the handle. */
  readonly key: string;
  /** Tells whether the exporter has closed the event. */
  readonly mark: ImportedMark;
}

export class ImportedEvent extends RefCounted {
  readonly handle: DriverEvent;
  readonly key: string;
  readonly mark: ImportedMark;
  readonly #exporter: Exporter;
  readonly #device: Device;
  readonly #label: string;

  /** Takes ownership of the driver's event and of one use of the exporter. The caller is a user. */
  constructor(
    device: Device,
    label: string,
    handle: DriverEvent,
    { exporter, key, mark }: EventOrigin,
  ) {
    super();
    device.retain();
    this.#device = device;
    this.#label = label;
    this.handle = handle;
    this.#exporter = exporter;
    this.key = key;
    this.mark = mark;
  }

  protected get countedAs(): string {
    return "an event";
  }

  protected onLastRelease(): void {
    const device = this.#device;
    releaseAll([
      () => device.driver.destroyEvent(this.handle),
      () => device.exporters.release(this.#exporter),
      () => device.release(),
    ]);
  }

  /** @throws PEER_GONE if the exporter ended before the event was done */
  refuseGone(): void {
    // WHY: the order matters, because the event may have been done just before the exporter ended.
    if (!this.#exporter.gone || this.#device.driver.isEventDone(this.handle)) return;
    const found = `process ${this.#exporter.identity.pid} ended before it was done`;
    throw new CudaIpcError("PEER_GONE", `Cannot wait for event "${this.#label}": ${found}`);
  }
}
