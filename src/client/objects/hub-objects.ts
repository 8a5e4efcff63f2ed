/**
 * The shared objects of a joined hub: registers them and opens them. Each object and access is
 * mapped once, however often it is opened.
 */
import { parseDType } from "../../array/dtype.js";
import { checkLayout } from "../../array/layout.js";
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import { checkOneOf } from "../../base/option-checks.js";
import { acquireIn, acquireInAsync } from "../../base/scope.js";
import type { Device } from "../../gpu/device.js";
import type { DeviceBuffer } from "../../gpu/memory/device-buffer.js";
import { ImportCache } from "../../gpu/memory/import-cache.js";
import { checkArrived, describeBuffer } from "../../gpu/memory/sharing.js";
import { closeFds } from "../../os/foreign-fd.js";
import type { Access, MapAccess } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { ChannelRole } from "../../wire/channel-content.js";
import type { Descriptor, DescriptorContent, ReplicaOf } from "../../wire/descriptor.js";
import { checkName } from "../../wire/names.js";
import { sharingOf } from "../call-checks.js";
import { operations } from "../client-diagnostics.js";
import type { HeldMemory } from "../connection/held-leases.js";
import { memoryOf, partOf } from "../connection/held-memory.js";
import type { HubLink } from "../connection/hub-link.js";
import { KeptDescriptors } from "../connection/kept-descriptors.js";
import type { Devices } from "../devices.js";
import type { CreateOptions, OpenOptions } from "../hub-options.js";
import { readBundleIndex } from "./bundle-index.js";
import { trackOpened } from "./memory-leases.js";
import { allocateNew, preallocateNew } from "./new-memory.js";
import { OpenHandles } from "./open-handles.js";
import { checkNoSeat, type OpenedChannel, openedChannel } from "./opened-channel.js";
import { type PlaceOptions, placeBuffer } from "./placement.js";
import { BundleCopies, copyNow } from "./private-copy.js";
import { SharedArray } from "./shared-array.js";
import { SharedBundle } from "./shared-bundle.js";
import type { HandleFacts, SharedHandle } from "./shared-object.js";

/** The hub's answer to an open. */
export interface OpenedObject extends HandleFacts {
  readonly descriptor: Descriptor;
  readonly access: MapAccess;
  /** The seat of a reader of a channel. */
  readonly place?: number | undefined;
  /** The memory's descriptor, and the index's of a bundle. Open until the object is imported. */
  readonly fds: readonly [OwnedFd, ...OwnedFd[]];
}

interface Asked {
  readonly access: Access;
  readonly role?: ChannelRole;
}

export interface NewObjectOptions extends Omit<CreateOptions, "replace"> {
  /** A number: only the object with it may be replaced. */
  readonly replace?: CreateOptions["replace"] | number;
  readonly replicaOf?: ReplicaOf | undefined;
  /** For an offer: the users who may be workers of its service. */
  readonly workers?: readonly number[] | undefined;
}

export class HubObjects {
  readonly link: HubLink;
  readonly handles: OpenHandles;
  readonly #devices: Devices;
  readonly #checkOpen: (attempt: string) => void;
  readonly #imports = new ImportCache();
  readonly #kept = new KeptDescriptors();

  /** @param checkOpen throws if the hub was closed */
  constructor(link: HubLink, devices: Devices, checkOpen: (attempt: string) => void) {
    this.link = link;
    this.handles = new OpenHandles(link);
    this.#devices = devices;
    this.#checkOpen = checkOpen;
  }

  /** Registers arrays in new memory, which the handle owns. */
  async create(
    name: string,
    byteLength: number,
    options: NewObjectOptions,
    content: DescriptorContent,
    index: OwnedFd | undefined,
  ): Promise<{ buffer: DeviceBuffer; handle: SharedHandle }> {
    checkName(name);
    this.#checkOpen(`create "${name}"`);
    const deadline = new Deadline(`create "${name}"`, options, Number.POSITIVE_INFINITY);
    const buffer = allocateNew(name, byteLength, options, this.#devices);
    let facts: HandleFacts | undefined;
    try {
      await buffer.ready(deadline.rest());
      if (options.preallocate) await this.preallocate(buffer, deadline);
      facts = await this.register(
        name,
        describeBuffer(buffer, content, options.replicaOf),
        memoryOf(buffer, index),
        { ...options, ...deadline.rest() },
      );
      return { buffer, handle: this.handles.track(facts, () => buffer.close()) };
    } catch (error) {
      if (facts !== undefined) this.link.release(facts.lease);
      buffer.close();
      throw deadline.named(error);
    }
  }

  /** The device of this name. @throws CLOSED */
  device(name: string | undefined): Device {
    this.#checkOpen("open a device");
    return this.#devices.open(name);
  }

  /** Takes the pages of new memory. @throws OUT_OF_MEMORY, TIMEOUT, ABORTED, CLOSED */
  preallocate(buffer: DeviceBuffer, deadline: Deadline): Promise<void> {
    return preallocateNew(buffer, deadline, () => this.#checkOpen(`create "${buffer.label}"`));
  }

  /** Registers memory with the hub under a name. Takes over `memory`. */
  async register(
    name: string,
    descriptor: Descriptor,
    memory: HeldMemory,
    options: NewObjectOptions,
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
        ...(options.replace ? { replace: options.replace } : {}),
        ...(options.workers?.length ? { workers: [...options.workers] } : {}),
      };
      const fds = memory.bring();
      try {
        const { object, lease } = await this.link.request("create", fields, deadline, { fds });
        this.#checkOpen(attempt);
        this.link.hold({ lease, object, access: "owner", memory });
        giveBack = () => this.link.release(lease);
        const passesName = Boolean(options.replace) && fields.lifetime === "held";
        return { name, object, lease, passesName };
      } finally {
        closeFds(fds);
      }
    });
  }

  /** Opens a name and imports the object. If that fails, nothing is held. */
  async open<T extends { close(): void }>(
    name: string,
    options: OpenOptions,
    importIt: (opened: OpenedObject) => T | Promise<T>,
  ): Promise<T> {
    const { access = "read" } = options;
    // A copy is this process's affair: for the hub it reads.
    const asked = { access: access === "copy" ? "read" : access } as const;
    return this.#openChecked(name, asked, options, (opened) => importIt({ ...opened, access }));
  }

  /** As `open`, to become the next owner of a timeline. @throws IN_USE, READ_ONLY */
  openAsOwner<T extends { close(): void }>(
    name: string,
    options: Pick<OpenOptions, "wait" | "timeoutMs" | "signal">,
    importIt: (opened: OpenedObject) => T,
  ): Promise<T> {
    const asked = { access: "read-write", role: "writer" } as const;
    return this.#openChecked(name, asked, options, importIt);
  }

  #openChecked<T extends { close(): void }>(
    name: string,
    asked: Asked,
    options: Pick<OpenOptions, "wait" | "timeoutMs" | "signal">,
    importIt: (opened: OpenedObject) => T | Promise<T>,
  ): Promise<T> {
    const importArrived = (opened: OpenedObject) => {
      checkNoSeat(opened);
      checkArrived(name, opened.descriptor, opened.fds);
      return importIt(opened);
    };
    return operations.open.run({ name, ...asked }, () =>
      this.#open(name, asked, options, importArrived),
    );
  }

  /**
   * Opens a channel and passes it to `use`. If that fails, nothing is held. The descriptors are
   * open until `use` has settled.
   * @throws TIMEOUT, NOT_FOUND if `wait` is false, WRONG_KIND, READERS_FULL, IN_USE if it has a
   * writer, INVALID_DESCRIPTOR, INVALID_MESSAGE
   */
  async openChannel<T extends { close(): void }>(
    name: string,
    role: ChannelRole,
    options: Pick<OpenOptions, "wait" | "timeoutMs" | "signal">,
    use: (opened: OpenedChannel) => T | Promise<T>,
  ): Promise<T> {
    checkOneOf("role", role, ["reader", "writer", "observer"]);
    const asked = { access: role === "writer" ? "read-write" : "read", role } as const;
    return operations.open.run({ name, ...asked }, () =>
      this.#open(name, asked, options, (opened) => use(openedChannel(opened, role))),
    );
  }

  async #open<T extends { close(): void }>(
    name: string,
    asked: Asked,
    options: Pick<OpenOptions, "wait" | "timeoutMs" | "signal">,
    importIt: (opened: OpenedObject) => T | Promise<T>,
  ): Promise<T> {
    checkName(name);
    this.#checkOpen(`open "${name}"`);
    const { access, role } = asked;
    const { wait = true } = options;
    const deadline = new Deadline(`open "${name}"`, options, defaults.requestTimeoutMs);
    const request = { name, access, wait, ...(role !== undefined && { role }) };
    const { result, fds } = await this.link.ask("open", request, deadline);
    const { object, lease } = result;
    // A use of its own: the link may give up its own while the object is being imported.
    const memory = acquireIn((scope) => {
      // By lease, because each reader of a channel has descriptors of its own.
      const kept = this.#kept.keep(object, role === undefined ? access : `lease ${lease}`, fds);
      const memory = scope.own(kept, (memory) => memory.close());
      const held = scope.own(memory.share(), (held) => held.close());
      this.link.hold({
        lease,
        object,
        access,
        ...(role === undefined ? { memory: held } : partOf(role, held)),
      });
      return memory;
    });
    return acquireInAsync(async (scope) => {
      let giveBack = () => this.link.release(lease);
      scope.defer(() => giveBack());
      try {
        this.#checkOpen(`open "${name}"`);
        const [first, ...others] = memory.fds;
        if (first === undefined) {
          throw new CudaIpcError(
            "INVALID_DESCRIPTOR",
            `Cannot open "${name}": it came without file descriptors`,
          );
        }
        const imported = await importIt({ name, ...result, access, fds: [first, ...others] });
        giveBack = () => imported.close();
        return imported;
      } finally {
        memory.close();
      }
    });
  }

  /** @throws WRONG_KIND if the object holds no arrays */
  async importArrays(
    opened: OpenedObject,
    options: PlaceOptions,
  ): Promise<SharedArray | SharedBundle> {
    const { name, descriptor, fds } = opened;
    const { content, replicaOf } = descriptor;
    if (content.kind === "timeline" || content.kind === "channel") {
      const use = content.kind === "timeline" ? "openTimeline" : "openChannel";
      const found = `it is a ${content.kind}; use ${use}`;
      throw new CudaIpcError("WRONG_KIND", `Cannot open "${name}" as an array: ${found}`);
    }
    const placed = await placeBuffer(this.#devices, this.#imports, opened, options);
    const { placement } = placed;
    const mustCopy = opened.access === "copy" && placed.buffer.access === "read";
    const copiesAll = mustCopy && content.kind === "array";
    const buffer = copiesAll ? await copyNow(placed.buffer, options) : placed.buffer;
    return acquireInAsync(async (scope) => {
      scope.own(buffer, (buffer) => buffer.close());
      this.#checkOpen(`open "${name}"`);
      const track = (copies?: BundleCopies) => trackOpened(this.handles, opened, buffer, copies);
      if (content.kind === "array") {
        const layout = { ...content.array, dtype: parseDType(content.array.dtype) };
        checkLayout(layout, descriptor.byteLength);
        return new SharedArray(buffer, layout, track(), { placement, replicaOf });
      }
      const index = fds[1];
      if (index === undefined) throw new TypeError("a bundle without index");
      const bundle = await readBundleIndex(name, index, content, descriptor.byteLength);
      this.#checkOpen(`open "${name}"`);
      const copies = mustCopy ? new BundleCopies(buffer, bundle.layouts.values()) : undefined;
      return new SharedBundle(buffer, bundle, track(copies), { placement, replicaOf, copies });
    });
  }

  /** Maps the data of a channel, on its own device or on one that reaches it. */
  async placeMemory(
    opened: OpenedChannel,
    access: Access,
    options: Omit<PlaceOptions, "whenUnreachable">,
  ): Promise<DeviceBuffer> {
    const [data] = opened.fds;
    if (data === undefined) throw new TypeError("a channel without memory");
    const placed = await placeBuffer(
      this.#devices,
      this.#imports,
      { ...opened, access, fds: [data] },
      options,
    );
    return acquireIn((scope) => {
      const buffer = scope.own(placed.buffer, (buffer) => buffer.close());
      this.#checkOpen(`open "${opened.name}"`);
      return buffer;
    });
  }
}
