/**
 * A joined hub: creates, opens, lists and removes objects by name. Owns the connection, the devices
 * that it opened and everything made through it, and closes them all.
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
import type { ArrayOptions } from "../gpu/arrays/device-array.js";
import type { Device } from "../gpu/device.js";
import type { HubStatus, ObjectSummary } from "../wire/messages.js";
import { checkName } from "../wire/names.js";
import { checks } from "./call-checks.js";
import type { HubLink, Reconnected } from "./connection/hub-link.js";
import { leaveHub, leaveWhenDisconnected } from "./connection/leave-hub.js";
import { restartHub } from "./connection/restart-hub.js";
import { trustedUsers } from "./connection/trusted-users.js";
import { Devices } from "./devices.js";
import type {
  CreateBundleOptions,
  CreateOptions,
  Inspection,
  OpenArrayOptions,
  OpenOptions,
  RemoveOptions,
} from "./hub-options.js";
import { HubTransfers } from "./hub-transfers.js";
import { createArray, createBundle } from "./objects/create-arrays.js";
import { HubObjects } from "./objects/hub-objects.js";
import { listObjects } from "./objects/list-objects.js";
import { openAny, openArray, openBundle } from "./objects/open-arrays.js";
import type { SharedArray } from "./objects/shared-array.js";
import type { SharedBundle } from "./objects/shared-bundle.js";
import {
  type CreateChannelOptions,
  createChannel,
  type OpenChannelOptions,
  observeChannel,
  openChannel,
  type ResumeChannelOptions,
  resumeChannel,
} from "./objects/shared-channel.js";

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
    leaveWhenDisconnected(link, objects);
  }

  get socketPath(): string {
    return this.#link.socketPath;
  }

  /**
   * Calls the listener once if the client looks for no hub any more: `reason` says why. If that is
   * so already, it is called soon. Mapped memory stays usable. Returns a function that removes the
   * listener.
   */
  onEnd(listener: (reason: CudaIpcError) => void): () => void {
    return this.#link.onEnd(listener);
  }

  /**
   * Calls the listener after each reconnect. If `resumed` is false, the hub lost what this client
   * holds, which stays usable. Returns a function that removes the listener.
   */
  onReconnect(listener: (event: Reconnected) => void): () => void {
    return this.#link.onReconnect(listener);
  }

  /** Lets the process exit while this connection is open, like `unref()` of a socket. */
  unref(): this {
    this.#link.setReferenced(false);
    return this;
  }

  /** Undoes `unref()`: the process stays alive while this connection is open. */
  ref(): this {
    this.#link.setReferenced(true);
    return this;
  }

  /** The device of this name. It is opened at first use and closed with the hub. */
  device(name?: string): Device {
    this.#checkOpen("open a device");
    return this.#devices.open(name);
  }

  /**
   * Creates an array under a name. Others can open it after `publish()`.
   * @throws NAME_TAKEN, INVALID_NAME, OUT_OF_MEMORY, DEVICE_NOT_FOUND
   * @example
   * using frame = await hub.create("frame", { dtype: "float32", shape: [1080, 1920, 3] });
   * await frame.write(pixels);
   * await frame.publish();
   */
  async create<D extends DType>(
    name: string,
    options: Omit<ArrayOptions<D>, "mechanism"> & CreateOptions,
  ): Promise<SharedArray<D>> {
    checks.create(options);
    const { dtype, shape } = options;
    const layout = { ...contiguousLayout(parseDType(dtype), [...shape]), dtype };
    return createArray(this.#objects, name, layout, arrayByteLength(dtype, shape), options);
  }

  /**
   * Creates many arrays under one name, in one allocation, with gaps only for alignment.
   * @throws as `create`
   */
  async createBundle(
    name: string,
    arrays: Readonly<Record<string, Omit<ArrayOptions<DType>, "mechanism">>>,
    options: CreateBundleOptions = {},
  ): Promise<SharedBundle> {
    checks.bundledArrays(arrays);
    checks.createBundle(options);
    const { layouts, byteLength } = packBundle(new Map(Object.entries(arrays)));
    return createBundle(this.#objects, name, layouts, byteLength, options);
  }

  /**
   * Opens an array by name, without a copy. Waits until it is published.
   * @throws TIMEOUT, INVALID_DESCRIPTOR, DEVICE_NOT_FOUND; NOT_FOUND if `wait` is false; WRONG_KIND
   * for a bundle, and for an array of another dtype than `dtype`
   * @example
   * using frame = await hub.open("frame", { dtype: "float32", timeoutMs: 5_000 });
   * const pixels = await frame.read(); // a Float32Array
   */
  async open<D extends DType = DType>(
    name: string,
    options: OpenArrayOptions<D> = {},
  ): Promise<SharedArray<D>> {
    checks.open(options);
    return openArray(this.#objects, name, options);
  }

  /** As `open`, for a bundle. @throws as `open`; WRONG_KIND for an array */
  async openBundle(name: string, options: OpenOptions = {}): Promise<SharedBundle> {
    checks.openAny(options);
    return openBundle(this.#objects, name, options);
  }

  /** Opens an array or a bundle; `kind` of the result says which. */
  async openAny(name: string, options: OpenOptions = {}): Promise<SharedArray | SharedBundle> {
    checks.openAny(options);
    return openAny(this.#objects, name, options);
  }

  /**
   * Creates a channel under a name, to which this process writes. Others can open it at once. Close
   * it, or let the hub's `close` do so.
   * @throws NAME_TAKEN, INVALID_NAME, OUT_OF_MEMORY; RangeError and TypeError for invalid options
   * @example
   * const options = { dtype: "uint8", shape: [1080, 1920, 3], slots: 4 } as const;
   * using writer = await hub.createChannel("frames", options);
   * using slot = await writer.loan();
   * slot.commit({ meta: { camera: 1 } });
   */
  async createChannel<D extends DType>(
    name: string,
    options: CreateChannelOptions<D>,
  ): Promise<ChannelWriter<D>> {
    checks.createChannel(options);
    return createChannel(this.#objects, name, this.device(options.device), options);
  }

  /**
   * Opens a reader of a channel. Waits until there is a channel of this name. With `dtype` its
   * arrays have that element type; any other is WRONG_KIND.
   * @throws READERS_FULL, TIMEOUT, NOT_FOUND if `wait` is false, WRONG_KIND, INVALID_DESCRIPTOR,
   * PEER_ACCESS_UNSUPPORTED
   * @example
   * using reader = await hub.openChannel("frames", { from: "latest" });
   * for await (using slot of reader) console.log(slot.sequence, await slot.array.read());
   */
  async openChannel<D extends DType = DType>(
    name: string,
    options: OpenChannelOptions<D> = {},
  ): Promise<ChannelReader<D>> {
    checks.openChannel(options);
    return openChannel(this.#objects, name, options);
  }

  /**
   * Becomes the next writer of a channel whose writer is gone (`whenWriterGone: "wait"`), and
   * continues its sequence.
   * @throws IN_USE if it has a writer; otherwise as `openChannel`
   */
  async resumeChannel(name: string, options: ResumeChannelOptions = {}): Promise<ChannelWriter> {
    checks.resumeChannel(options);
    return resumeChannel(this.#objects, name, options);
  }

  /** Observes a channel: its writer, its readers and their counts. @throws as `openChannel` */
  async observeChannel(
    name: string,
    options: Pick<OpenChannelOptions, "wait" | "timeoutMs" | "signal"> = {},
  ): Promise<ChannelObserver> {
    checks.resumeChannel(options);
    return observeChannel(this.#objects, name, options);
  }

  /**
   * Lists all objects in order of their names, or those whose names begin with `prefix`. With
   * `all`, objects without a name (`nameless`) follow, and each entry has its `holders`.
   */
  async list(
    options: WaitOptions & {
      readonly prefix?: string | undefined;
      readonly all?: boolean | undefined;
    } = {},
  ): Promise<ObjectSummary[]> {
    checks.list(options);
    const { prefix, all, ...wait } = options;
    if (prefix !== undefined) checkName(prefix);
    return listObjects(this.#link, this.#begin("list what is shared", wait), { prefix, all });
  }

  /** Describes one object and its holders. */
  async inspect(name: string, options: WaitOptions = {}): Promise<Inspection> {
    return this.#link.request(
      "inspect",
      { name: checkName(name) },
      this.#begin(`inspect "${name}"`, options),
    );
  }

  /** The uids of this process's user (first), of root and of the hub's, for the hub. @internal */
  async trustedUsers(options: WaitOptions): Promise<ReadonlySet<number>> {
    return trustedUsers(this.#link, this.#begin("ask the hub for its users", options));
  }

  /**
   * Removes a name at once, as unlink does. Holders keep the object.
   * @throws NOT_FOUND; STALE_HANDLE if another object has the name; IN_USE
   */
  async remove(name: string, options: RemoveOptions = {}): Promise<void> {
    checks.remove(options);
    const { object, unheldSinceMs, ...wait } = options;
    const only = object === undefined ? {} : { object };
    const unheld = unheldSinceMs === undefined ? {} : { unheldSinceMs };
    const fields = { name: checkName(name), ...only, ...unheld };
    await this.#link.request("remove", fields, this.#begin(`remove "${name}"`, wait));
  }

  async status(options: WaitOptions = {}): Promise<HubStatus> {
    return this.#link.request("status", {}, this.#begin("ask the hub for its status", options));
  }

  /**
   * Stops the hub. With `force` also while it keeps objects or serves other clients.
   * @throws HUB_IN_USE
   */
  async stop(options: WaitOptions & { readonly force?: boolean } = {}): Promise<void> {
    checks.stop(options);
    const { force = false, ...wait } = options;
    await this.#link.request("stop", { force }, this.#begin("stop the hub", wait));
  }

  /** Replaces the hub by a new process, which keeps names, leases and memory. @throws NO_KEEPER */
  async restart(options: WaitOptions = {}): Promise<HubStatus> {
    return restartHub(this.#link, this.#begin("restart the hub", options));
  }

  /**
   * Closes everything made through this hub, waits for transfers, and disconnects. Waits up to two
   * seconds for streams that still have messages to finish or timelines to signal. A stream that
   * takes longer keeps them until this process ends.
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
    if (this.#closing !== undefined)
      throw new CudaIpcError("CLOSED", `Cannot ${attempt}: the hub was closed`);
  }
}
