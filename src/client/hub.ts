/**
 * A joined hub: creates, opens, lists and removes what is shared by name. Owns the connection, the devices that it opened
 * and everything made through it, and closes them all.
 */

import { packBundle } from "../array/bundle-packing.js";
import { type DType, parseDType } from "../array/dtype.js";
import { arrayByteLength, contiguousLayout } from "../array/layout.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import type { ChannelObserver } from "../channel/channel-observer.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { Device } from "../gpu/device.js";
import type { ArrayOptions } from "../gpu/device-array.js";
import type { ImportedTimeline, Timeline } from "../gpu/timeline.js";
import type { HubStatus, ObjectSummary } from "../wire/messages.js";
import { checkName } from "../wire/names.js";
import { checks } from "./call-checks.js";
import { createArray, createBundle } from "./create-arrays.js";
import { Devices } from "./devices.js";
import type { HubLink, Reconnected } from "./hub-link.js";
import { HubObjects } from "./hub-objects.js";
import type { CreateBundleOptions, CreateOptions, Inspection, OpenArrayOptions, OpenOptions } from "./hub-options.js";
import { HubTransfers } from "./hub-transfers.js";
import { leaveHub } from "./leave-hub.js";
import { listObjects } from "./list-objects.js";
import { openAny, openArray, openBundle } from "./open-arrays.js";
import { restartHub } from "./restart-hub.js";
import type { SharedArray } from "./shared-array.js";
import type { SharedBundle } from "./shared-bundle.js";
import {
  type CreateChannelOptions,
  createChannel,
  type OpenChannelOptions,
  observeChannel,
  openChannel,
  type ResumeChannelOptions,
  resumeChannel,
} from "./shared-channel.js";
import {
  type CreateTimelineOptions,
  createTimeline,
  type OpenTimelineOptions,
  openTimeline,
} from "./shared-timeline.js";

export class Hub extends HubTransfers {
  readonly #link: HubLink;
  readonly #devices: Devices;
  readonly #objects: HubObjects;
  #closing: Promise<void> | undefined;

  /** Use `connect()`. */
  constructor(link: HubLink, defaultDevice: string | undefined) {
    const devices = new Devices(defaultDevice);
    const objects = new HubObjects(link, devices, (attempt) => this.#checkOpen(attempt));
    super({ objects, link });
    this.#link = link;
    this.#devices = devices;
    this.#objects = objects;
  }

  get socketPath(): string {
    return this.#link.socketPath;
  }

  /**
   * Calls the listener once, with the reason, when no hub is looked for any more: it was stopped on
   * purpose, or none was found in time. What is mapped stays usable. Returns what takes it off
   * again.
   */
  onEnd(listener: (reason: CudaIpcError) => void): () => void {
    return this.#link.onEnd(listener);
  }

  /**
   * Calls the listener each time this client has come back to a hub. With `resumed` all is as
   * before. Without it the hub has lost what is held here, which stays usable and has no name any
   * more. Returns what takes the listener off again.
   */
  onReconnect(listener: (event: Reconnected) => void): () => void {
    return this.#link.onReconnect(listener);
  }

  /** Lets the process end although this connection is open, as `unref()` of a socket does. */
  unref(): this {
    this.#link.setReferenced(false);
    return this;
  }

  /** Undoes `unref()`: the process runs for as long as this connection is open. */
  ref(): this {
    this.#link.setReferenced(true);
    return this;
  }

  /** The device of this name, opened at first use and closed with the hub. */
  device(name?: string): Device {
    this.#checkOpen("open a device");
    return this.#devices.open(name);
  }

  /**
   * A new array under a name. Others can open it once it was published.
   * @throws NAME_TAKEN, INVALID_NAME, OUT_OF_MEMORY, DEVICE_NOT_FOUND
   * @example
   * using frame = await hub.create("frame", { dtype: "float32", shape: [1080, 1920, 3] });
   * await frame.write(pixels);
   * await frame.publish();
   */
  async create<D extends DType>(name: string, options: ArrayOptions<D> & CreateOptions): Promise<SharedArray<D>> {
    checks.create(options);
    const { dtype, shape } = options;
    const layout = { ...contiguousLayout(parseDType(dtype), [...shape]), dtype };
    return createArray(this.#objects, name, layout, arrayByteLength(dtype, shape), options);
  }

  /**
   * Many new arrays under one name, in one allocation: with `shape` and `dtype` each, packed without gaps but for alignment.
   * @throws as `create`
   */
  async createBundle(
    name: string,
    arrays: Readonly<Record<string, ArrayOptions<DType>>>,
    options: CreateBundleOptions = {},
  ): Promise<SharedBundle> {
    checks.bundledArrays(arrays);
    checks.createBundle(options);
    const { layouts, byteLength } = packBundle(new Map(Object.entries(arrays)));
    return createBundle(this.#objects, name, layouts, byteLength, options);
  }

  /**
   * Opens the array of this name, mapped without a copy. Waits until it is published.
   * @throws TIMEOUT, INVALID_DESCRIPTOR, DEVICE_NOT_FOUND; NOT_FOUND if `wait` is false;
   * WRONG_KIND for a bundle, and for an array of another dtype than `dtype`
   * @example
   * using frame = await hub.open("frame", { dtype: "float32", timeoutMs: 5_000 });
   * const pixels = await frame.read(); // a Float32Array
   */
  async open<D extends DType = DType>(name: string, options: OpenArrayOptions<D> = {}): Promise<SharedArray<D>> {
    checks.open(options);
    return openArray(this.#objects, name, options);
  }

  /**
   * The bundle of this name, mapped without a copy; waits until it is published.
   * @throws as `open`, WRONG_KIND for an array
   */
  async openBundle(name: string, options: OpenOptions = {}): Promise<SharedBundle> {
    checks.openAny(options);
    return openBundle(this.#objects, name, options);
  }

  /** What has this name, whatever it is: its `kind` says whether it is an array or a bundle. */
  async openAny(name: string, options: OpenOptions = {}): Promise<SharedArray | SharedBundle> {
    checks.openAny(options);
    return openAny(this.#objects, name, options);
  }

  /**
   * A new timeline under a name, which others open at once; this process alone signals it. It ends for everybody when it is closed and
   * when this process ends, however that happens. Closed by the caller, or with this hub.
   * @throws NAME_TAKEN, INVALID_NAME
   */
  async createTimeline(name: string, options: CreateTimelineOptions = {}): Promise<Timeline> {
    checks.createTimeline(options);
    return createTimeline(this.#objects, name, this.device(options.device), options);
  }

  /**
   * The timeline of this name, to be waited for; waits until there is one.
   * @throws TIMEOUT, NOT_FOUND where `wait` is false, WRONG_KIND for an array or a bundle
   */
  async openTimeline(name: string, options: OpenTimelineOptions = {}): Promise<ImportedTimeline> {
    checks.openTimeline(options);
    return openTimeline(this.#objects, name, this.device(options.device), options);
  }

  /**
   * A new channel under a name, which this process writes to and others open at once. Closed by the caller, or with this hub.
   * @throws NAME_TAKEN, INVALID_NAME, OUT_OF_MEMORY; RangeError and TypeError for what no channel can be
   * @example
   * using writer = await hub.createChannel("frames", { dtype: "uint8", shape: [1080, 1920, 3], slots: 4 });
   * using slot = await writer.loan();
   * slot.commit({ meta: { camera: 1 } });
   */
  async createChannel<D extends DType>(name: string, options: CreateChannelOptions<D>): Promise<ChannelWriter<D>> {
    checks.createChannel(options);
    return createChannel(this.#objects, name, this.device(options.device), options);
  }

  /**
   * A reader of the channel of this name; waits until there is one.
   * With `dtype` its arrays have that element type, or it is refused with WRONG_KIND.
   * @throws READERS_FULL, TIMEOUT, NOT_FOUND where `wait` is false, WRONG_KIND, INVALID_DESCRIPTOR, PEER_ACCESS_UNSUPPORTED
   * @example
   * using reader = await hub.openChannel("frames", { from: "latest" });
   * for await (using slot of reader) console.log(slot.sequence, slot.json, await slot.array.read());
   */
  async openChannel<D extends DType = DType>(
    name: string,
    options: OpenChannelOptions<D> = {},
  ): Promise<ChannelReader<D>> {
    checks.openChannel(options);
    return openChannel(this.#objects, name, options);
  }

  /**
   * Writes to a channel whose writer is gone and which waits for another (`whenWriterGone: "wait"`), and goes on with its sequence.
   * @throws IN_USE where it has a writer, as `openChannel`
   */
  async resumeChannel(name: string, options: ResumeChannelOptions = {}): Promise<ChannelWriter> {
    checks.resumeChannel(options);
    return resumeChannel(this.#objects, name, options);
  }

  /** Looks on at a channel: its writer, its readers and their counts. @throws as `openChannel` */
  async observeChannel(
    name: string,
    options: Pick<OpenChannelOptions, "wait" | "timeoutMs" | "signal"> = {},
  ): Promise<ChannelObserver> {
    checks.resumeChannel(options);
    return observeChannel(this.#objects, name, options);
  }

  /** Everything that is shared, in order of names; with `prefix` what has a name that begins so. */
  async list(options: WaitOptions & { readonly prefix?: string | undefined } = {}): Promise<ObjectSummary[]> {
    checks.list(options);
    const prefix = options.prefix === undefined ? "" : checkName(options.prefix);
    return listObjects(this.#link, this.#begin("list what is shared", options), prefix);
  }

  /** One object and who holds it. */
  async inspect(name: string, options: WaitOptions = {}): Promise<Inspection> {
    return this.#link.request("inspect", { name: checkName(name) }, this.#begin(`inspect "${name}"`, options));
  }

  /**
   * Takes a name away at once, as unlink does; those who hold the object keep it.
   * @throws NOT_FOUND
   */
  async remove(name: string, options: WaitOptions = {}): Promise<void> {
    await this.#link.request("remove", { name: checkName(name) }, this.#begin(`remove "${name}"`, options));
  }

  async status(options: WaitOptions = {}): Promise<HubStatus> {
    return this.#link.request("status", {}, this.#begin("ask the hub for its status", options));
  }

  /**
   * Ends the hub; with `force` also while it keeps objects or serves others.
   * @throws HUB_IN_USE
   */
  async stop(options: WaitOptions & { readonly force?: boolean } = {}): Promise<void> {
    checks.stop(options);
    await this.#link.request("stop", { force: options.force ?? false }, this.#begin("stop the hub", options));
  }

  /** Has the next hub go on with names, leases and memory, and resolves with its status. @throws NO_KEEPER */
  async restart(options: WaitOptions = {}): Promise<HubStatus> {
    return restartHub(this.#link, this.#begin("restart the hub", options));
  }

  /**
   * Closes everything made through this hub, waits for transfers under way, and leaves. Streams that still have messages of channels to
   * finish, or timelines to signal, are waited for as well, for two seconds; what takes longer is kept until this process ends.
   */
  async close(): Promise<void> {
    this.#closing ??= leaveHub(this.#link, this.#objects, this.#devices);
    await this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #begin(attempt: string, options: WaitOptions): Deadline {
    this.#checkOpen(attempt);
    checks.wait(options);
    return new Deadline(attempt, options, defaults.requestTimeoutMs);
  }

  #checkOpen(attempt: string): void {
    if (this.#closing !== undefined) throw new CudaIpcError("CLOSED", `Cannot ${attempt}: the hub was closed`);
  }
}
