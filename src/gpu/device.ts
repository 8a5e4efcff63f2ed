/**
 * A device by name: `host`, `cuda:N`, or `auto` (the first GPU, or the host if there is no GPU). It
 * owns its driver, which is closed after everything made on the device. Each device has a driver of
 * its own, so that the driver's tables have one owner. Drivers of one GPU share CUDA's context.
 */
import { type DeviceReference, uuidOf } from "../base/device-reference.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { aString, checkFunction, optionsOf } from "../base/option-checks.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { automaticKinds, parseDeviceName } from "../driver/device-names.js";
import type { DeviceFacts, GpuDriver } from "../driver/gpu-driver.js";
import { type DriverOpener, openDriver } from "../driver/open-driver.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ExportMarks } from "./memory/export-marks.js";
import { Exporters } from "./memory/exporters.js";
import { LegacyImports } from "./memory/legacy-memory.js";
import { ContextWatch } from "./order/context-watch.js";
import { Event } from "./order/event.js";
import { EventPool } from "./order/event-pool.js";
import type { TimelineLocation } from "./order/shared-words.js";
import { Stream } from "./order/stream.js";
import type { ImportedTimeline, Timeline } from "./order/timeline.js";
import { TimelineArena } from "./order/timeline-arena.js";
import { Lanes } from "./transfer/lanes.js";

export interface TimelineOptions {
  /** The name in error messages. */
  readonly label?: string | undefined;
  /** Called once when the timeline is closed. */
  readonly onClose?: (() => void) | undefined;
}

const checkEvent = optionsOf<{ readonly label?: string }>("createEvent()", { label: aString });
const checkTimeline = optionsOf<TimelineOptions>("a timeline", {
  label: aString,
  onClose: checkFunction,
});

export class Device {
  /** `host` or `cuda:N`. N may differ between processes; `uuid` is the same everywhere. */
  readonly name: string;
  readonly facts: DeviceFacts;
  /** Why this device was chosen, in words; useful with `auto`. */
  readonly reason: string;
  /** @internal */
  readonly driver: GpuDriver;
  /** @internal */
  readonly lanes: Lanes;
  /** See event.ts. @internal */
  readonly events: EventPool;
  /** See event.ts and ipc-array-handle.ts; the same holds for the two below. @internal */
  readonly exportMarks = new ExportMarks();
  /** @internal */
  readonly exporters = new Exporters();
  /** @internal */
  readonly legacyImports = new LegacyImports();
  readonly #context: ContextWatch;
  /** @internal */
  readonly timelines = new TimelineArena(this);
  readonly #underWay = new Set<Promise<unknown>>();
  #open = true;
  /** Number of mappings, streams and so on that need the driver. */
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
   * Opens a device. Without a name it opens `CUDA_IPC_DEVICE`, or `auto` if that is not set.
   * @throws INVALID_DEVICE, DEVICE_NOT_FOUND, DRIVER_NOT_FOUND, DRIVER_TOO_OLD
   */
  static open(name?: string): Device;
  /** @internal */
  static open(name?: string, openDriverOf?: DriverOpener): Device;
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
  static openByReference(
    reference: DeviceReference,
    openDriverOf: DriverOpener = openDriver,
  ): Device {
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
        `Cannot open device ${uuid}: this process sees ` +
          `${seen.length === 0 ? "no GPU" : seen.join(", ")}`,
      );
    });
  }

  static #auto(openDriverOf: DriverOpener): Device {
    let reason = "auto: the first GPU";
    for (const kind of automaticKinds) {
      try {
        return Device.#on(openDriverOf(kind), 0, reason);
      } catch (error) {
        // Only these two codes mean that there is no GPU. A broken or too old driver is reported.
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

  /** Identifies this device to other processes. */
  get reference(): DeviceReference {
    return this.facts.reference;
  }

  get uuid(): string {
    return uuidOf(this.reference);
  }

  /** How many devices of its kind this process sees: the host is one, GPUs are `cuda:0` and on. */
  get deviceCount(): number {
    this.#checkOpen();
    return this.driver.deviceCount();
  }

  /** Whether the CPU sees the memory of this device. If so, `view()` works. */
  get cpuVisible(): boolean {
    return this.driver.cpuVisible;
  }

  /** Whether memory of the other device can be mapped here, if the hardware allows it. */
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
   * Whether this process shares its context with other processes, as a client of an MPS server. If
   * so, any client that is killed or faults while its kernel runs ends the contexts of all clients.
   */
  get sharesContext(): boolean {
    return this.facts.attributes.MPS_ENABLED === 1;
  }

  /**
   * Calls the listener once if this process loses its context on the device, within tenths of a
   * second even if nothing waits for the device. Then the device is unusable in this process: exit,
   * and let a supervisor start a new process.
   *
   * The listener does not keep the process alive. Returns a function that removes it.
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

  /**
   * For waits that would not end by themselves if the device is lost.
   * @throws DEVICE_LOST
   * @internal
   */
  checkAlive(): void {
    if (this.#open) this.#context.check();
  }

  createStream(): Stream {
    this.#checkOpen();
    return new Stream(this);
  }

  /**
   * Loads the kernels for operations on arrays (`fill`, `statistics` and others). The first
   * operation on a GPU does this itself, in some tenths of a second. Call it earlier if that delay
   * matters, or if a stream may already wait for a timeline then.
   */
  prepareOperations(): void {
    this.#checkOpen();
    this.driver.prepareOperations(this.ordinal);
  }

  /**
   * Creates an event. Record it on this device; any process can wait for it. The caller closes it.
   * @throws LIMIT_EXCEEDED
   */
  createEvent(options: { readonly label?: string } = {}): Event {
    checkEvent(options);
    this.#checkOpen();
    return Event.create(this, options.label);
  }

  /**
   * Creates a counter that starts at 0 and that only this process signals. The caller closes it.
   */
  createTimeline(options: TimelineOptions = {}): Timeline {
    checkTimeline(options);
    this.#checkOpen();
    return this.timelines.create(options.label ?? "timeline", options.onClose);
  }

  /**
   * Imports a timeline of another process, or of this one. The caller closes it.
   * @param fd its file descriptor, which the caller still owns
   * @param location its position in the memory behind `fd`
   * @throws INVALID_DESCRIPTOR
   */
  importTimeline(
    fd: OwnedFd,
    location: TimelineLocation,
    options: TimelineOptions = {},
  ): ImportedTimeline {
    checkTimeline(options);
    this.#checkOpen();
    return this.timelines.import(options.label ?? "timeline", fd, location, options.onClose);
  }

  /** Adds a user of the driver, which must call `release` once. @internal */
  retain(): void {
    this.#checkOpen();
    this.#users += 1;
  }

  /** @internal */
  release(): void {
    this.#users -= 1;
    if (!this.#open && this.#users === 0) this.#end();
  }

  /** Runs a transfer; `idle` waits for it. @internal */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const running = work();
    this.#underWay.add(running);
    try {
      return await running;
    } finally {
      this.#underWay.delete(running);
    }
  }

  /** Resolves once no transfer is under way. @internal */
  async idle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
  }

  /**
   * Closes the device: nothing new can be made on it. Existing buffers, streams and so on stay
   * usable; the driver is closed after the last of them.
   */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    // WHY: the parts closed here may hold the last use of the driver, and it must outlive them.
    this.#users += 1;
    const parts = [this.timelines, this.lanes, this.#context];
    releaseAll([...parts.map((part) => () => part.close()), () => this.release()]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #end(): void {
    releaseAll([
      () => this.events.close(),
      () => this.driver.close(),
      () => this.exportMarks.close(),
    ]);
  }

  #checkOpen(): void {
    if (!this.#open)
      throw new CudaIpcError("CLOSED", `Cannot use device ${this.name}: it was closed`);
  }
}
