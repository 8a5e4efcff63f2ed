/**
 * What a joined hub holds of shared objects: makes them known to the hub, opens them, and keeps a handle of each until it is closed.
 * One mapping for each object and access, however often it is opened.
 */
import { parseDType } from "../array/dtype.js";
import { checkLayout } from "../array/layout.js";
import { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { checkOneOf } from "../base/one-of.js";
import { acquireIn, acquireInAsync, releaseAll } from "../base/scope.js";
import { DeviceBuffer } from "../gpu/device-buffer.js";
import { ImportCache } from "../gpu/import-cache.js";
import { checkArrived, describeBuffer } from "../gpu/sharing.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { Descriptor, DescriptorContent } from "../wire/descriptor.js";
import { checkName } from "../wire/names.js";
import { readBundleIndex } from "./bundle-index.js";
import type { Devices } from "./devices.js";
import type { HubConnection } from "./hub-connection.js";
import type { CreateOptions, OpenOptions } from "./hub-options.js";
import { type PlaceOptions, placeBuffer } from "./placement.js";
import { SharedArray } from "./shared-array.js";
import { SharedBundle } from "./shared-bundle.js";
import { type HandleFacts, SharedHandle } from "./shared-object.js";

/** What the hub answered to an open. */
export interface OpenedObject extends HandleFacts {
  readonly descriptor: Descriptor;
  readonly access: Access;
  /** The memory's, and the index's of a bundle; closed once the object is imported. */
  readonly fds: readonly [OwnedFd, ...OwnedFd[]];
}

export class HubObjects {
  readonly #connection: HubConnection;
  readonly #devices: Devices;
  readonly #checkOpen: (attempt: string) => void;
  readonly #imports = new ImportCache();
  readonly #handles = new Set<SharedHandle>();

  /** @param checkOpen throws where the hub was closed */
  constructor(connection: HubConnection, devices: Devices, checkOpen: (attempt: string) => void) {
    this.#connection = connection;
    this.#devices = devices;
    this.#checkOpen = checkOpen;
  }

  /** Arrays in `memory`: so many bytes to be allocated, or a buffer, which the handle owns once this resolves. */
  async create(
    name: string,
    memory: number | DeviceBuffer,
    options: CreateOptions,
    content: DescriptorContent,
    index: OwnedFd | undefined,
  ): Promise<{ buffer: DeviceBuffer; handle: SharedHandle }> {
    checkName(name);
    this.#checkOpen(`create "${name}"`);
    const ownBuffer = typeof memory === "number";
    const buffer = ownBuffer ? this.#allocate(name, memory, options) : memory;
    let facts: HandleFacts | undefined;
    try {
      await buffer.ready(options);
      {
        using fd = buffer.exportFd();
        const fds = index === undefined ? [fd] : [fd, index];
        facts = await this.register(name, describeBuffer(buffer, content), fds, options);
      }
      return { buffer, handle: this.track(facts, () => buffer.close()) };
    } catch (error) {
      if (facts !== undefined) this.#connection.release(facts.lease);
      if (ownBuffer) buffer.close();
      throw error;
    }
  }

  #allocate(name: string, byteLength: number, { device, pool }: CreateOptions): DeviceBuffer {
    if (pool === undefined) return DeviceBuffer.allocate(this.#devices.open(device), byteLength, { label: name });
    if (device !== undefined && this.#devices.open(device).uuid !== pool.device.uuid) {
      throw new TypeError(`Cannot create "${name}" on ${device}: its pool is on ${pool.device.name}`);
    }
    return pool.allocate(byteLength, { label: name });
  }

  /** Makes memory known to the hub under a name. */
  async register(
    name: string,
    descriptor: Descriptor,
    fds: readonly OwnedFd[],
    options: CreateOptions,
  ): Promise<HandleFacts> {
    checkName(name);
    const attempt = `create "${name}"`;
    this.#checkOpen(attempt);
    const deadline = new Deadline(attempt, options, defaults.requestTimeoutMs);
    const lifetime = checkOneOf("lifetime", options.lifetime ?? "held", ["held", "pinned"]);
    const { object, lease } = await this.#connection.request("create", { name, lifetime, descriptor }, deadline, fds);
    this.#checkOpen(attempt);
    return { name, object, lease };
  }

  /** Opens a name and imports what it is; where that fails, nothing is held. */
  async open<T extends { close(): void }>(
    name: string,
    options: OpenOptions,
    importIt: (opened: OpenedObject) => T | Promise<T>,
  ): Promise<T> {
    checkName(name);
    this.#checkOpen(`open "${name}"`);
    const access = checkOneOf("access", options.access ?? "read", ["read", "read-write"]);
    const wait = checkOneOf("wait", options.wait ?? true, [true, false]);
    const deadline = new Deadline(`open "${name}"`, options, defaults.requestTimeoutMs);
    const { result, fds } = await this.#connection.ask("open", { name, access, wait }, deadline);
    return acquireInAsync(async (scope) => {
      let giveBack = () => this.#connection.release(result.lease);
      scope.defer(() => giveBack());
      try {
        this.#checkOpen(`open "${name}"`);
        checkArrived(name, result.descriptor, fds);
        const [memory, ...others] = fds;
        if (memory === undefined) throw new TypeError("an object without memory");
        const imported = await importIt({ name, ...result, access, fds: [memory, ...others] });
        giveBack = () => imported.close();
        return imported;
      } finally {
        releaseAll(fds.map((fd) => () => fd.close()));
      }
    });
  }

  /** @throws WRONG_KIND for what holds no arrays */
  async importArrays(opened: OpenedObject, options: PlaceOptions): Promise<SharedArray | SharedBundle> {
    const { name, descriptor, fds } = opened;
    const { content } = descriptor;
    if (content.kind === "timeline") {
      throw new CudaIpcError("WRONG_KIND", `Cannot open "${name}" as an array: it is a timeline; use openTimeline`);
    }
    const { buffer, placement } = await placeBuffer(this.#devices, this.#imports, opened, options);
    return acquireIn((scope) => {
      scope.own(buffer, (buffer) => buffer.close());
      this.#checkOpen(`open "${name}"`);
      const track = () => this.track(opened, () => buffer.close());
      if (content.kind === "array") {
        const layout = { ...content.array, dtype: parseDType(content.array.dtype) };
        checkLayout(layout, descriptor.byteLength);
        return new SharedArray(buffer, layout, track(), placement);
      }
      const index = fds[1];
      if (index === undefined) throw new TypeError("a bundle without index");
      const bundle = readBundleIndex(name, index, content, descriptor.byteLength);
      return new SharedBundle(buffer, bundle, track(), placement);
    });
  }

  /** A handle that gives the lease back when it is closed, and what `release` releases. */
  track(facts: HandleFacts, release: () => void): SharedHandle {
    const handle = new SharedHandle(this.#connection, facts, release, (closed) => this.#handles.delete(closed));
    this.#handles.add(handle);
    return handle;
  }

  close(): void {
    releaseAll([...this.#handles].map((handle) => () => handle.close()));
  }
}
