/**
 * A point in a stream's work that streams and CPUs of this and other processes wait for. To a driver, an event that was never recorded
 * is done; here it is an error to wait for it, and an imported one counts as recorded only when its exporter's descriptor says so.
 */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { DriverEvent } from "../driver/event-calls.js";
import type { DriverStream } from "../driver/gpu-driver.js";
import { ownIdentity } from "../os/process-identity.js";
import {
  decodeHandle,
  type EventDescriptor,
  encodeHandle,
  IPC_DOCUMENT_VERSION,
  parseEventDescriptor,
} from "../wire/ipc-documents.js";
import { waitUntil } from "./adaptive-wait.js";
import type { Device } from "./device.js";
import type { ExportMark } from "./export-marks.js";
import { exporterKey } from "./exporters.js";
import { ImportedEvent } from "./imported-event.js";
import { checkDeviceKind, refuseOwnProcess } from "./ipc-origin.js";
import type { Stream } from "./stream.js";

export class Event {
  readonly device: Device;
  readonly label: string;
  readonly #handle: DriverEvent;
  readonly #origin: ImportedEvent | undefined;
  /** From the first export on. */
  #mark: ExportMark | undefined;
  #recorded: number;
  #open = true;

  /** Takes over the driver's event, or the imported one around it. */
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
   * An event of another process, by its descriptor. The caller closes it; streams that wait for it keep it until then.
   * @throws INVALID_DESCRIPTOR, INVALID_HANDLE, OWN_HANDLE, STALE_HANDLE where its exporter ended or closed it
   */
  static import(device: Device, descriptor: unknown, options: { readonly label?: string } = {}): Event {
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
      const handle = mark.guard(`import ${what}`, () => driver.importEvent(ordinal, decodeHandle(text)), destroy);
      scope.own(handle, destroy);
      const key = `${exporterKey(identity)} ${text}`;
      const origin = new ImportedEvent(device, label, handle, { exporter, key, mark });
      return new Event(device, label, handle, { recorded, origin });
    });
  }

  get imported(): boolean {
    return this.#origin !== undefined;
  }

  /** How often it was recorded; of an imported event, as far as was announced. */
  get recorded(): number {
    return this.#recorded;
  }

  get open(): boolean {
    return this.#open;
  }

  /**
   * The event is done once the stream has done all work given to it so far, and no earlier: it stands for its last recording. While
   * an earlier one is not done yet, recorded again on another stream of a GPU it may hold that stream back until then: better to have
   * an event for each recording that is under way. `device.createEvent` is cheap, closed events being used again.
   * @throws UNSUPPORTED for an imported event
   */
  record(stream: Stream): void {
    this.device.driver.recordEvent(this.#usable("record"), stream.handle);
    this.#recorded += 1;
  }

  /** Whether the stream has passed the last recording; false while there is none. Throws what the work before it failed with. */
  get done(): boolean {
    return this.#recorded > 0 && this.#passed("ask");
  }

  /**
   * Waits until the event is done.
   * @throws EVENT_NOT_RECORDED where no recording was made or announced, PEER_GONE where the exporter ends before, STALE_HANDLE where it
   * closed the event, TIMEOUT, ABORTED, DEVICE_LOST
   */
  async synchronize(options: WaitOptions = {}): Promise<void> {
    const deadline = new Deadline(`wait for event "${this.label}"`, options, Number.POSITIVE_INFINITY);
    this.#recordedHandle();
    await waitUntil(() => this.#isDone(), deadline);
  }

  /** For `stream.wait(event)`, which keeps an imported event until then. @throws EVENT_NOT_RECORDED, PEER_GONE, STALE_HANDLE */
  holdBack(stream: DriverStream, keep: (event: ImportedEvent) => void): void {
    const handle = this.#recordedHandle();
    this.#origin?.refuseGone();
    this.device.driver.waitEvent(stream, handle);
    if (this.#origin === undefined) return;
    keep(this.#origin);
    // WHY again: where the exporter closed it meanwhile, the stream may wait for the next event with this handle.
    this.#usable("wait for");
  }

  /**
   * What another process imports the event by. It tells how often the event was recorded so far: send it after recording, or send
   * another then for `announce`. Valid while the event is open and this process runs.
   * @throws UNSUPPORTED for an imported event
   */
  export(): EventDescriptor {
    const handle = this.device.driver.exportEvent(this.#usable("export"));
    this.#mark ??= this.device.exportMarks.add();
    const { generation, place } = this.#mark;
    return {
      format: "cuda-ipc",
      version: IPC_DOCUMENT_VERSION,
      kind: "event",
      exporter: { ...ownIdentity() },
      device: this.device.reference,
      handle: encodeHandle(handle),
      generation,
      mark: place,
      recorded: this.#recorded,
    };
  }

  /**
   * Takes note of a later descriptor of the same event: waits that start from now on are for its recordings.
   * @throws INVALID_DESCRIPTOR for that of another event, STALE_HANDLE for an older one than is known
   */
  announce(descriptor: unknown): void {
    const verb = "announce a recording of";
    this.#usable(verb);
    const { exporter, handle, generation, recorded } = parseEventDescriptor(descriptor);
    const attempt = `Cannot ${verb} event "${this.label}"`;
    if (this.#origin === undefined) {
      throw new CudaIpcError("UNSUPPORTED", `${attempt}: it is of this process, which knows its recordings`);
    }
    if (`${exporterKey(exporter)} ${handle}` !== this.#origin.key) {
      throw new CudaIpcError("INVALID_DESCRIPTOR", `${attempt}: the descriptor is of another event`);
    }
    if (generation !== this.#origin.mark.generation) {
      const found = `the descriptor is of another event with this handle (generation ${generation})`;
      throw new CudaIpcError("STALE_HANDLE", `${attempt}: ${found}`);
    }
    if (recorded < this.#recorded) {
      const found = `the descriptor tells of ${recorded} recordings, ${this.#recorded} are known`;
      throw new CudaIpcError("STALE_HANDLE", `${attempt}: ${found}`);
    }
    this.#recorded = recorded;
  }

  /** Gives the event back: to the device for another use, or, imported, to the driver. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const { device } = this;
    if (this.#origin !== undefined) this.#origin.release();
    else releaseAll([() => this.#mark?.end(), () => device.events.put(this.#handle), () => device.release()]);
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
    // WHY again: where the exporter closed it meanwhile, the driver may have answered for the next event with this handle.
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
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot ${verb} event "${this.label}": it was closed`);
    this.#origin?.mark.refuseEnded(`${verb} event "${this.label}"`);
    return this.#handle;
  }
}
