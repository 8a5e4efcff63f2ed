/**
 * A point in a stream's work that streams and CPUs of this and other processes can wait for. For a
 * driver, an event that was never recorded is done. Here, waiting for it is an error. An imported
 * event counts as recorded only if its exporter's descriptor says so.
 */
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { aString, optionsOf } from "../../base/option-checks.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { checkWait } from "../../base/wait-checks.js";
import type { DriverEvent } from "../../driver/event-calls.js";
import type { DriverStream } from "../../driver/gpu-driver.js";
import { ownIdentity } from "../../os/process-identity.js";
import {
  decodeHandle,
  type EventDescriptor,
  encodeHandle,
  IPC_DOCUMENT_VERSION,
  parseEventDescriptor,
} from "../../wire/ipc-documents.js";
import { checkDevice } from "../check-arguments.js";
import type { Device } from "../device.js";
import type { ExportMark } from "../memory/export-marks.js";
import { checkDeviceKind, exporterKey, refuseOwnProcess } from "../memory/exporters.js";
import { waitUntil } from "./adaptive-wait.js";
import { ImportedEvent } from "./imported-event.js";
import type { Stream } from "./stream.js";

const checkLabel = optionsOf<{ readonly label?: string | undefined }>("Event.import()", {
  label: aString,
});

export class Event {
  readonly device: Device;
  readonly label: string;
  readonly #handle: DriverEvent;
  readonly #origin: ImportedEvent | undefined;
  /** Added by the first export. */
  #mark: ExportMark | undefined;
  #recorded: number;
  #open = true;

  /** Takes ownership of the driver's event, or of the imported event that contains it. */
  private constructor(
    device: Device,
    label: string,
    handle: DriverEvent,
    known: { readonly recorded: number; readonly origin: ImportedEvent | undefined },
  ) {
    this.device = device;
    this.label = label;
    this.#handle = handle;
    this.#recorded = known.recorded;
    this.#origin = known.origin;
  }

  /** Use `device.createEvent()`. */
  static create(device: Device, label = "event"): Event {
    return acquireIn((scope) => {
      const handle = scope.own(device.events.take(), (it) => device.events.put(it));
      device.retain();
      return new Event(device, label, handle, { recorded: 0, origin: undefined });
    });
  }

  /**
   * Imports an event of another process by its descriptor. The caller closes it. Streams that wait
   * for it keep it until they have passed the wait.
   * @throws INVALID_DESCRIPTOR, INVALID_HANDLE, OWN_HANDLE, STALE_HANDLE if its exporter ended or
   * closed it
   */
  static import(
    device: Device,
    descriptor: unknown,
    options: { readonly label?: string | undefined } = {},
  ): Event {
    checkDevice(device);
    checkLabel(options);
    const { label = "imported event" } = options;
    const what = `event "${label}"`;
    const document = parseEventDescriptor(descriptor);
    const { exporter: identity, recorded, handle: text } = document;
    checkDeviceKind(device, document.device, what);
    refuseOwnProcess(identity, what);
    return acquireIn((scope) => {
      const { exporters } = device;
      const exporter = scope.own(exporters.retain(identity, what), (it) => exporters.release(it));
      const { driver, ordinal } = device;
      const mark = exporter.mark(document.mark, document.generation, what);
      const destroy = (it: DriverEvent) => driver.destroyEvent(it);
      const handle = mark.guard(
        `import ${what}`,
        () => driver.importEvent(ordinal, decodeHandle(text)),
        destroy,
      );
      scope.own(handle, destroy);
      const key = `${exporterKey(identity)} ${text}`;
      const origin = new ImportedEvent(device, label, handle, { exporter, key, mark });
      return new Event(device, label, handle, { recorded, origin });
    });
  }

  get imported(): boolean {
    return this.#origin !== undefined;
  }

  /** How often the event was recorded; for an imported event, as far as `announce` was told. */
  get recorded(): number {
    return this.#recorded;
  }

  get open(): boolean {
    return this.#open;
  }

  /**
   * Records the event: it is done once the stream has finished all work enqueued so far. Only the
   * last recording counts.
   *
   * Use one event per pending recording. On a GPU, recording it again on another stream may hold
   * that stream back until the earlier recording is done. `device.createEvent` is cheap, because it
   * reuses closed events.
   * @throws UNSUPPORTED for an imported event
   */
  record(stream: Stream): void {
    this.device.driver.recordEvent(this.#usable("record"), stream.handle);
    this.#recorded += 1;
  }

  /**
   * Whether the stream has passed the last recording; false if there is none. Throws if the
   * stream's earlier work failed.
   */
  get done(): boolean {
    return this.#recorded > 0 && this.#passed("ask");
  }

  /**
   * Waits until the event is done.
   * @throws EVENT_NOT_RECORDED if no recording was made or announced, PEER_GONE if the exporter
   * ends first, STALE_HANDLE if it closed the event, TIMEOUT, ABORTED, DEVICE_LOST
   */
  async synchronize(options: WaitOptions = {}): Promise<void> {
    checkWait(options);
    const deadline = new Deadline(
      `wait for event "${this.label}"`,
      options,
      Number.POSITIVE_INFINITY,
    );
    this.#recordedHandle();
    await waitUntil(() => this.#isDone(), deadline);
  }

  /**
   * Makes the stream wait for the event; for `stream.wait(event)`.
   * @param keep keeps an imported event until the stream has passed the wait
   * @throws EVENT_NOT_RECORDED, PEER_GONE, STALE_HANDLE
   * @internal
   */
  holdBack(stream: DriverStream, keep: (event: ImportedEvent) => void): void {
    const handle = this.#recordedHandle();
    this.#origin?.refuseGone();
    this.device.driver.waitEvent(stream, handle);
    if (this.#origin === undefined) return;
    keep(this.#origin);
    // Checked again: if the exporter closed the event meanwhile, the stream may wait for the next
    // event with this handle.
    this.#usable("wait for");
  }

  /**
   * Returns a descriptor by which another process imports the event. It is valid while the event is
   * open and this process runs.
   *
   * The descriptor contains the number of recordings so far. Send it after you record the event, or
   * send a new one then, which the importer passes to `announce`.
   * @throws UNSUPPORTED for an imported event
   */
  export(): EventDescriptor {
    const handle = this.device.driver.exportEvent(this.#usable("export"));
    this.#mark ??= this.device.exportMarks.add();
    const { generation, location } = this.#mark;
    return {
      format: "cuda-ipc",
      version: IPC_DOCUMENT_VERSION,
      kind: "event",
      exporter: { ...ownIdentity() },
      device: this.device.reference,
      handle: encodeHandle(handle),
      generation,
      mark: location,
      recorded: this.#recorded,
    };
  }

  /**
   * Reads a newer descriptor of the same event. Waits that start from now on are for its last
   * recording.
   * @throws INVALID_DESCRIPTOR for a descriptor of another event, STALE_HANDLE for an older
   * descriptor of this one
   */
  announce(descriptor: unknown): void {
    const verb = "announce a recording of";
    this.#usable(verb);
    const { exporter, handle, generation, recorded } = parseEventDescriptor(descriptor);
    const attempt = `Cannot ${verb} event "${this.label}"`;
    if (this.#origin === undefined) {
      throw new CudaIpcError(
        "UNSUPPORTED",
        `${attempt}: it is of this process, which knows its recordings`,
      );
    }
    if (`${exporterKey(exporter)} ${handle}` !== this.#origin.key) {
      throw new CudaIpcError(
        "INVALID_DESCRIPTOR",
        `${attempt}: the descriptor is of another event`,
      );
    }
    if (generation !== this.#origin.mark.generation) {
      const found = "the descriptor is of another event with this handle";
      throw new CudaIpcError("STALE_HANDLE", `${attempt}: ${found} (generation ${generation})`);
    }
    if (recorded < this.#recorded) {
      const found = `it counts ${recorded} recordings, ${this.#recorded} are known`;
      throw new CudaIpcError("STALE_HANDLE", `${attempt}: the descriptor is older: ${found}`);
    }
    this.#recorded = recorded;
  }

  /** Closes the event. The device reuses an own event; an imported one is destroyed. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const { device } = this;
    if (this.#origin !== undefined) this.#origin.release();
    else
      releaseAll([
        () => this.#mark?.end(),
        () => device.events.put(this.#handle),
        () => device.release(),
      ]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #isDone(): boolean {
    if (this.#passed("wait for")) return true;
    this.#origin?.refuseGone();
    return false;
  }

  #passed(verb: string): boolean {
    const done = this.device.driver.isEventDone(this.#usable(verb));
    // Checked again: if the exporter closed the event meanwhile, the driver may have answered for
    // the next event with this handle.
    if (done) this.#usable(verb);
    return done;
  }

  #recordedHandle(): DriverEvent {
    const handle = this.#usable("wait for");
    if (this.#recorded > 0) return handle;
    const found = this.imported ? "no recording of it was announced" : "it was never recorded";
    throw new CudaIpcError("EVENT_NOT_RECORDED", `Cannot wait for event "${this.label}": ${found}`);
  }

  #usable(verb: string): DriverEvent {
    if (!this.#open)
      throw new CudaIpcError("CLOSED", `Cannot ${verb} event "${this.label}": it was closed`);
    this.#origin?.mark.refuseEnded(`${verb} event "${this.label}"`);
    return this.#handle;
  }
}
