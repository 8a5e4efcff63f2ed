/**
 * What a joined hub holds of shared objects: makes them known to the hub, opens them, and keeps a handle of each until it is closed.
 * One mapping for each object and access, however often it is opened.
 */
import { parseDType } from "../array/dtype.js";
import { checkLayout } from "../array/layout.js";
import { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { checkOneOf } from "../base/one-of.js";
import { acquireIn, acquireInAsync, releaseAll } from "../base/scope.js";
import { waitUntil } from "../gpu/adaptive-wait.js";
import { DeviceBuffer } from "../gpu/device-buffer.js";
import { ImportCache } from "../gpu/import-cache.js";
import { checkArrived, describeBuffer } from "../gpu/sharing.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { ChannelRole } from "../wire/channel-content.js";
import type { Descriptor, DescriptorContent } from "../wire/descriptor.js";
import type { Sharing } from "../wire/messages.js";
import { checkName } from "../wire/names.js";
import { readBundleIndex } from "./bundle-index.js";
import type { Devices } from "./devices.js";
import { duplicates, type HeldLease, type HeldMemory } from "./held-leases.js";
import { closeFds } from "./hub-connection.js";
import type { HubLink } from "./hub-link.js";
import type { CreateOptions, OpenOptions, SharingOptions } from "./hub-options.js";
import { KeptDescriptors } from "./kept-descriptors.js";
import { type OpenedChannel, openedChannel } from "./opened-channel.js";
import { type PlaceOptions, placeBuffer } from "./placement.js";
import { SharedArray } from "./shared-array.js";
import { SharedBundle } from "./shared-bundle.js";
import { type HandleFacts, type Lasting, SharedHandle } from "./shared-object.js";

/** What the hub answered to an open. */
export interface OpenedObject extends HandleFacts {
  readonly descriptor: Descriptor;
  readonly access: Access;
  /** Of a reader of a channel. */
  readonly place?: number | undefined;
  /** The memory's, and the index's of a bundle; open until the object is imported. */
  readonly fds: readonly [OwnedFd, ...OwnedFd[]];
}

function sharingOf(options: SharingOptions | undefined, kind: DescriptorContent["kind"]): Sharing | undefined {
  if (options === undefined) return undefined;
  const { with: whom, access = "read" } = options;
  if (kind === "timeline" && access === "read-write") {
    throw new TypeError('sharing.access of a timeline must be "read": its owner alone signals it');
  }
  return { with: whom, access };
}

export class HubObjects {
  readonly #link: HubLink;
  readonly #devices: Devices;
  readonly #checkOpen: (attempt: string) => void;
  readonly #imports = new ImportCache();
  readonly #kept = new KeptDescriptors();
  readonly #handles = new Set<SharedHandle>();

  /** @param checkOpen throws where the hub was closed */
  constructor(link: HubLink, devices: Devices, checkOpen: (attempt: string) => void) {
    this.#link = link;
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
    const buffer = ownBuffer ? this.allocate(name, memory, options) : memory;
    let facts: HandleFacts | undefined;
    try {
      await buffer.ready(options);
      facts = await this.register(name, describeBuffer(buffer, content), memoryOf(buffer, index), options);
      return { buffer, handle: this.track(facts, () => buffer.close()) };
    } catch (error) {
      if (facts !== undefined) this.#link.release(facts.lease);
      if (ownBuffer) buffer.close();
      throw error;
    }
  }

  /** Memory for a new object, on the chosen device or in the chosen pool. */
  allocate(name: string, byteLength: number, { device, pool }: CreateOptions): DeviceBuffer {
    if (pool === undefined) return DeviceBuffer.allocate(this.#devices.open(device), byteLength, { label: name });
    if (device !== undefined && this.#devices.open(device).uuid !== pool.device.uuid) {
      throw new TypeError(`Cannot create "${name}" on ${device}: its pool is on ${pool.device.name}`);
    }
    return pool.allocate(byteLength, { label: name });
  }

  /** Makes memory known to the hub under a name. Takes over `memory`. */
  async register(
    name: string,
    descriptor: Descriptor,
    memory: HeldMemory,
    options: CreateOptions,
  ): Promise<HandleFacts> {
    const attempt = `create "${name}"`;
    return acquireInAsync(async (scope) => {
      let giveBack = () => memory.close();
      scope.defer(() => giveBack());
      checkName(name);
      this.#checkOpen(attempt);
      const deadline = new Deadline(attempt, options, defaults.requestTimeoutMs);
      const sharing = sharingOf(options.sharing, descriptor.content.kind);
      const fields = {
        name,
        lifetime: options.lifetime ?? "held",
        descriptor,
        ...(sharing === undefined ? {} : { sharing }),
      };
      const fds = memory.bring();
      try {
        const { object, lease } = await this.#link.request("create", fields, deadline, { fds });
        this.#checkOpen(attempt);
        this.#link.hold({ lease, object, access: "owner", memory });
        giveBack = () => this.#link.release(lease);
        return { name, object, lease };
      } finally {
        closeFds(fds);
      }
    });
  }

  /** Opens a name and imports what it is; where that fails, nothing is held. */
  async open<T extends { close(): void }>(
    name: string,
    options: OpenOptions,
    importIt: (opened: OpenedObject) => T | Promise<T>,
  ): Promise<T> {
    return this.#open(name, { access: options.access ?? "read" }, options, (opened) => {
      checkArrived(name, opened.descriptor, opened.fds);
      return importIt(opened);
    });
  }

  /**
   * Opens a channel and makes of it what `use` does; where that fails, nothing is held. The descriptors are open until `use` has settled.
   * @throws TIMEOUT, NOT_FOUND where `wait` is false, WRONG_KIND, READERS_FULL, IN_USE where it has a writer, INVALID_DESCRIPTOR,
   * INVALID_MESSAGE
   */
  async openChannel<T extends { close(): void }>(
    name: string,
    role: ChannelRole,
    options: Pick<OpenOptions, "wait" | "timeoutMs" | "signal">,
    use: (opened: OpenedChannel) => T | Promise<T>,
  ): Promise<T> {
    checkOneOf("role", role, ["reader", "writer", "observer"]);
    const access = role === "writer" ? "read-write" : "read";
    return this.#open(name, { access, role }, options, (opened) => use(openedChannel(opened, role)));
  }

  async #open<T extends { close(): void }>(
    name: string,
    asked: { readonly access: Access; readonly role?: ChannelRole },
    options: Pick<OpenOptions, "wait" | "timeoutMs" | "signal">,
    importIt: (opened: OpenedObject) => T | Promise<T>,
  ): Promise<T> {
    checkName(name);
    this.#checkOpen(`open "${name}"`);
    const { access, role } = asked;
    const { wait = true } = options;
    const deadline = new Deadline(`open "${name}"`, options, defaults.requestTimeoutMs);
    const { result, fds } = await this.#link.ask("open", { name, wait, ...asked }, deadline);
    const { object, lease } = result;
    // WHY a use of its own: the link may give up its own while the object is being imported.
    const memory = acquireIn((scope) => {
      // WHY by its lease: each reader of a channel has descriptors of its own.
      const kept = this.#kept.keep(object, role === undefined ? access : `lease ${lease}`, fds);
      const memory = scope.own(kept, (memory) => memory.close());
      const held = scope.own(memory.share(), (held) => held.close());
      this.#link.hold({ lease, object, access, ...(role === undefined ? { memory: held } : partOf(role, held)) });
      return memory;
    });
    return acquireInAsync(async (scope) => {
      let giveBack = () => this.#link.release(lease);
      scope.defer(() => giveBack());
      try {
        this.#checkOpen(`open "${name}"`);
        const [first, ...others] = memory.fds;
        if (first === undefined) {
          throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot open "${name}": it came without file descriptors`);
        }
        const imported = await importIt({ name, ...result, access, fds: [first, ...others] });
        giveBack = () => imported.close();
        return imported;
      } finally {
        memory.close();
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
    if (content.kind === "channel") {
      throw new CudaIpcError("WRONG_KIND", `Cannot open "${name}" as an array: it is a channel; use openChannel`);
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

  /** The data of a channel, on its own device or on one that reaches it. */
  async placeMemory(
    opened: OpenedChannel,
    access: Access,
    options: Omit<PlaceOptions, "whenUnreachable">,
  ): Promise<DeviceBuffer> {
    const [data] = opened.fds;
    if (data === undefined) throw new TypeError("a channel without memory");
    const placed = await placeBuffer(this.#devices, this.#imports, { ...opened, access, fds: [data] }, options);
    return acquireIn((scope) => {
      const buffer = scope.own(placed.buffer, (buffer) => buffer.close());
      this.#checkOpen(`open "${opened.name}"`);
      return buffer;
    });
  }

  /** The processes that read a channel, by place; empty if the hub does not say so at once. */
  async whoReads(name: string, object: number | undefined): Promise<ReadonlyMap<number, string>> {
    const deadline = new Deadline(`ask who reads "${name}"`, {}, defaults.explanationMs);
    try {
      const found = await this.#link.request("inspect", { name }, deadline);
      // WHY: the name may be another channel's by now.
      if (found.object.object !== object) return new Map();
      return new Map(found.holders.map(({ place = -1, pid, program }) => [place, `process ${pid}, ${program}`]));
    } catch {
      // It is only said in addition to an error.
      return new Map();
    }
  }

  /** A handle that gives the lease back when it is closed, and what `memory` releases. */
  track(facts: HandleFacts, memory: (() => void) | Lasting): SharedHandle {
    const handle = new SharedHandle(this.#link, facts, memory, (closed) => this.#handles.delete(closed));
    this.#handles.add(handle);
    return handle;
  }

  close(): void {
    releaseAll([...this.#handles].map((handle) => () => handle.end()));
  }

  /** Whether all that was closed has ended; waits for streams that are still at work on it, for so long at most. */
  async settled(timeoutMs: number): Promise<boolean> {
    const isSettled = () => {
      for (const handle of [...this.#handles]) handle.settle();
      return this.#handles.size === 0;
    };
    try {
      await waitUntil(isSettled, new Deadline("close what was shared", { timeoutMs }, timeoutMs));
      return true;
    } catch (error) {
      // WHY a lost device is no failure: whoever computes there is told.
      if (hasCode(error, "TIMEOUT") || hasCode(error, "DEVICE_LOST")) return false;
      throw error;
    }
  }
}

/** What a new connection is told of a part in a channel: a writer brings all of it, who looks on nothing. */
function partOf(role: ChannelRole, memory: HeldMemory): Pick<HeldLease, "memory" | "isPart"> {
  if (role !== "observer") return { memory, isPart: role === "reader" };
  return { memory: { bring: () => [], close: () => memory.close() } };
}

/** An array or a bundle that was made here: its memory is exported anew each time. */
function memoryOf(buffer: DeviceBuffer, index: OwnedFd | undefined): HeldMemory {
  const kept = index?.duplicate();
  const bring = () =>
    acquireIn((scope) => {
      const fd = scope.own(buffer.exportFd(), (fd) => fd.close());
      return kept === undefined ? [fd] : [fd, ...duplicates([kept])];
    });
  return { bring, close: () => kept?.close() };
}
