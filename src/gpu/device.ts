/**
 * A device by name: `host`, `cuda:N`, or `auto` for the first GPU and the host where there is none.
 * Owns its driver and what transfers to it need; the driver lives until everything made on the device is gone.
 */
import { type DeviceReference, uuidOf } from "../base/device-reference.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { automaticKinds, parseDeviceName } from "../driver/device-names.js";
import type { DeviceFacts, GpuDriver } from "../driver/gpu-driver.js";
import { type DriverOpener, openDriver } from "../driver/open-driver.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ContextWatch } from "./context-watch.js";
import { Event } from "./event.js";
import { EventPool } from "./event-pool.js";
import { ExportMarks } from "./export-marks.js";
import { Exporters } from "./exporters.js";
import { Lanes } from "./lanes.js";
import { LegacyImports } from "./legacy-imports.js";
import { Stream } from "./stream.js";
import type { ImportedTimeline, Timeline, TimelinePlace } from "./timeline.js";
import { TimelineArena } from "./timeline-arena.js";

export interface TimelineOptions {
  /** The name in error messages. */
  readonly label?: string | undefined;
  /** Called once when it is closed. */
  readonly onClose?: (() => void) | undefined;
}

export class Device {
  /** `host` or `cuda:N`; the number is this process's own, see `uuid` for one that holds everywhere. */
  readonly name: string;
  readonly facts: DeviceFacts;
  /** Why this device was taken, in words; of interest after `auto`. */
  readonly reason: string;
  readonly driver: GpuDriver;
  readonly lanes: Lanes;
  /** See event.ts. @internal */
  readonly events: EventPool;
  /** See event.ts and ipc-array-handle.ts, as of the two below. @internal */
  readonly exportMarks = new ExportMarks();
  /** @internal */
  readonly exporters = new Exporters();
  /** @internal */
  readonly legacyImports = new LegacyImports();
  readonly #context: ContextWatch;
  readonly #timelines = new TimelineArena(this);
  readonly #underWay = new Set<Promise<unknown>>();
  #open = true;
  /** Mappings and streams that need the driver. */
  #users = 0;

  private constructor(driver: GpuDriver, ordinal: number, reason: string) {
    this.driver = driver;
    this.facts = driver.describeDevice(ordinal);
    this.name = this.facts.id;
    this.reason = reason;
    this.lanes = new Lanes(driver, ordinal);
    this.events = new EventPool(driver, ordinal);
    this.#context = new ContextWatch(driver, ordinal, () => this.#users > 0);
  }

  /**
   * Opens a device. Without a name: `CUDA_IPC_DEVICE`, else `auto`.
   * @throws INVALID_DEVICE, DEVICE_NOT_FOUND, DRIVER_NOT_FOUND, DRIVER_TOO_OLD
   */
  static open(name?: string, openDriverOf: DriverOpener = openDriver): Device {
    const wanted = parseDeviceName(name ?? (process.env.CUDA_IPC_DEVICE || "auto"));
    if (wanted === "auto") return Device.#auto(openDriverOf);
    return Device.#on(openDriverOf(wanted.kind), wanted.ordinal, "asked for by name");
  }

  /**
   * Opens the device that a descriptor names. Its ordinal may differ from process to process.
   * @throws DEVICE_NOT_FOUND if this process does not see the device
   * @internal
   */
  static openByReference(reference: DeviceReference, openDriverOf: DriverOpener = openDriver): Device {
    const uuid = uuidOf(reference);
    return acquireIn((scope) => {
      const driver = scope.own(openDriverOf(reference.kind), (driver) => driver.close());
      const seen: string[] = [];
      for (let ordinal = 0; ordinal < driver.deviceCount(); ordinal += 1) {
        const found = uuidOf(driver.describeDevice(ordinal).reference);
        if (found === uuid) return new Device(driver, ordinal, "asked for by UUID");
        seen.push(found);
      }
      throw new CudaIpcError(
        "DEVICE_NOT_FOUND",
        `Cannot open device ${uuid}: this process sees ${seen.length === 0 ? "no GPU" : seen.join(", ")}`,
      );
    });
  }

  static #auto(openDriverOf: DriverOpener): Device {
    let reason = "auto: the first GPU";
    for (const kind of automaticKinds) {
      try {
        return Device.#on(openDriverOf(kind), 0, reason);
      } catch (error) {
        // WHY only these two: they say that there is no GPU. A driver that is broken or too old is reported.
        if (!hasCode(error, "DRIVER_NOT_FOUND") && !hasCode(error, "DEVICE_NOT_FOUND")) throw error;
        reason = `auto: no GPU (${error.message})`;
      }
    }
    throw new CudaIpcError("DEVICE_NOT_FOUND", `Cannot open a device (${reason})`);
  }

  static #on(driver: GpuDriver, ordinal: number, reason: string): Device {
    return acquireIn((scope) => {
      scope.own(driver, (driver) => driver.close());
      return new Device(driver, ordinal, reason);
    });
  }

  get ordinal(): number {
    return this.facts.ordinal;
  }

  /** Names this device to other processes. */
  get reference(): DeviceReference {
    return this.facts.reference;
  }

  get uuid(): string {
    return uuidOf(this.reference);
  }

  /** Whether the CPU sees the memory of this device, so that `view()` works. */
  get cpuVisible(): boolean {
    return this.driver.cpuVisible;
  }

  /** Whether memory of the other device can be mapped here, if the hardware lets it. */
  isSameKindAs(other: DeviceReference): boolean {
    return this.reference.kind === other.kind;
  }

  get open(): boolean {
    return this.#open;
  }

  memoryInfo(): { readonly freeBytes: number; readonly totalBytes: number } {
    this.#checkOpen();
    return this.driver.memoryInfo(this.ordinal);
  }

  /**
   * Whether this process shares its context with other processes, as a client of an MPS server. Then a process that is killed or
   * faults while its kernel runs ends the contexts of all, this one's too.
   */
  get sharesContext(): boolean {
    return this.facts.attributes.MPS_ENABLED === 1;
  }

  /**
   * Calls the listener once if this process's context on the device is lost: within tenths of a second also where nothing waits for
   * the device. Nothing can be done on the device from then on; end the process, and have a supervisor start another.
   * Keeps no process running. Returns what ends it.
   * @example
   * hub.device().onLost((error) => {
   *   console.error(error.message);
   *   process.exit(1);
   * });
   */
  onLost(listener: (error: Error) => void): () => void {
    this.#checkOpen();
    return this.#context.onLost(listener);
  }

  /** For waits that nothing of the device itself would end. @throws DEVICE_LOST @internal */
  checkAlive(): void {
    if (this.#open) this.#context.check();
  }

  createStream(): Stream {
    this.#checkOpen();
    return new Stream(this);
  }

  /**
   * Loads what operations on arrays (`fill`, `statistics` and the others) need. The first operation on a GPU does it by itself; where a
   * stream may be waiting for a timeline by then, or some tenths of a second matter, call this before.
   */
  prepareOperations(): void {
    this.#checkOpen();
    this.driver.prepareOperations(this.ordinal);
  }

  /** An event to be recorded here and waited for anywhere; the caller closes it. @throws LIMIT_EXCEEDED */
  createEvent(options: { readonly label?: string } = {}): Event {
    this.#checkOpen();
    return Event.create(this, options.label);
  }

  /** A counter that starts at 0, signalled by this process alone. Closed by the caller. */
  createTimeline(options: TimelineOptions = {}): Timeline {
    this.#checkOpen();
    return this.#timelines.create(options.label ?? "timeline", options.onClose);
  }

  /**
   * A timeline of another process (or of this one) by its descriptor, which stays the caller's, and its place. Closed by the caller.
   * @throws INVALID_DESCRIPTOR
   */
  importTimeline(fd: OwnedFd, place: TimelinePlace, options: TimelineOptions = {}): ImportedTimeline {
    this.#checkOpen();
    return this.#timelines.import(options.label ?? "timeline", fd, place, options.onClose);
  }

  /** Counts something made on this device, which calls `release` once: the driver is closed after it. */
  retain(): void {
    this.#checkOpen();
    this.#users += 1;
  }

  release(): void {
    this.#users -= 1;
    if (!this.#open && this.#users === 0) this.#end();
  }

  /** Runs work that `idle` waits for. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const running = work();
    this.#underWay.add(running);
    try {
      return await running;
    } finally {
      this.#underWay.delete(running);
    }
  }

  /** Resolves once no transfer is under way. */
  async idle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
  }

  /** From here on nothing is made on this device. What was made on it stays usable; the driver is closed after the last of it. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    // WHY counted: what is closed here may hold the last use of the driver, which must outlast all of it.
    this.#users += 1;
    const parts = [this.#timelines, this.lanes, this.#context];
    releaseAll([...parts.map((part) => () => part.close()), () => this.release()]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #end(): void {
    releaseAll([() => this.events.close(), () => this.driver.close(), () => this.exportMarks.close()]);
  }

  #checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot use device ${this.name}: it was closed`);
  }
}
