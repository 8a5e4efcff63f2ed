/** A buffer whose memory grows without moving, here and in every process that follows. */
import { checkInteger } from "../../base/bytes.js";
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import { aString, checkFunction, integer, oneOf, optionsOf } from "../../base/option-checks.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { checkWait } from "../../base/wait-checks.js";
import type { DevicePointer } from "../../driver/gpu-driver.js";
import { closeFds } from "../../os/foreign-fd.js";
import type { Access } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import {
  checkGrowingDescriptor,
  checkGrowth,
  GROWING_DESCRIPTOR_VERSION,
  type GrowingDescriptor,
  type Growth,
} from "../../wire/growing-descriptor.js";
import { checkDevice } from "../check-arguments.js";
import type { Device } from "../device.js";
import { DeviceBuffer } from "./device-buffer.js";
import { type ExportedGrowth, GrowingMemory } from "./growing-memory.js";

export interface GrowingOptions {
  /** Bytes of the content at first. */
  readonly byteLength: number;
  /** The most that it can ever be. Reserving addresses costs no memory. */
  readonly maxByteLength: number;
  /** The name in error messages; "growing" by default. */
  readonly label?: string | undefined;
}

export interface GrowingImportOptions {
  /** "read" by default. */
  readonly access?: Access | undefined;
  readonly label?: string | undefined;
  /** Fetches the pieces from number `from` on; `follow` maps and closes them. @internal */
  readonly fetch?: ((from: number, deadline: Deadline) => Promise<ExportedGrowth>) | undefined;
}

const checkCreate = optionsOf<GrowingOptions>(
  "GrowingBuffer.create()",
  { byteLength: integer(0), maxByteLength: integer(1), label: aString },
  { needs: ["byteLength", "maxByteLength"] },
);

const checkImport = optionsOf<GrowingImportOptions>("GrowingBuffer.import()", {
  access: oneOf("read", "read-write"),
  label: aString,
  fetch: checkFunction,
});

export interface ExportedGrowing {
  readonly fds: readonly OwnedFd[];
  readonly descriptor: GrowingDescriptor;
}

export class GrowingBuffer {
  readonly device: Device;
  readonly label: string;
  readonly access: Access;
  /** The memory as a buffer: one and the same while it grows. */
  readonly buffer: DeviceBuffer;
  readonly #memory: GrowingMemory;
  readonly #fetch: GrowingImportOptions["fetch"];
  #open = true;

  private constructor(
    memory: GrowingMemory,
    label: string,
    access: Access,
    fetch: GrowingImportOptions["fetch"],
  ) {
    this.device = memory.device;
    this.label = label;
    this.access = access;
    this.#memory = memory;
    this.#fetch = fetch;
    this.buffer = DeviceBuffer.over(memory, { label, byteLength: 0, access });
  }

  /** @throws OUT_OF_MEMORY, LIMIT_EXCEEDED for more than `maxByteLength` */
  static create(device: Device, options: GrowingOptions): GrowingBuffer {
    checkDevice(device);
    checkCreate(options);
    const { byteLength, maxByteLength, label = "growing" } = options;
    return acquireIn((scope) => {
      const memory = GrowingMemory.reserve(device, maxByteLength, "read-write", false);
      const growing = new GrowingBuffer(memory, label, "read-write", undefined);
      scope.own(growing, (it) => it.close());
      growing.grow(byteLength);
      return growing;
    });
  }

  /**
   * Follows memory that grows in another process. The descriptors stay the caller's.
   * @throws INVALID_DESCRIPTOR if the memory is not what is claimed
   */
  static import(
    device: Device,
    fds: readonly OwnedFd[],
    descriptor: GrowingDescriptor,
    options: GrowingImportOptions = {},
  ): GrowingBuffer {
    checkDevice(device);
    checkImport(options);
    const { access = "read", label = "growing", fetch } = options;
    const { maxByteLength, growth, device: from } = checkGrowingDescriptor(descriptor);
    if (!device.isSameKindAs(from)) {
      const attempt = `Cannot import "${label}" on ${device.name}`;
      const message = `${attempt}: it is memory of device ${from.kind}`;
      throw new CudaIpcError("INVALID_DESCRIPTOR", message);
    }
    return acquireIn((scope) => {
      const memory = GrowingMemory.reserve(device, maxByteLength, access, true);
      const growing = new GrowingBuffer(memory, label, access, fetch);
      scope.own(growing, (it) => it.close());
      growing.extend(fds, growth);
      return growing;
    });
  }

  get open(): boolean {
    return this.#open;
  }

  /** The address of the first byte, which never changes. */
  get pointer(): DevicePointer {
    return this.buffer.pointer;
  }

  /** Bytes of the content. */
  get byteLength(): number {
    return this.buffer.byteLength;
  }

  /** The most bytes that there can be. */
  get maxByteLength(): number {
    return this.#memory.maxByteLength;
  }

  /** The number of pieces: a follower asks for the pieces from this number on. */
  get pieceCount(): number {
    return this.#memory.pieceCount;
  }

  /**
   * Makes the content `byteLength` long. New bytes are zero on the host device and undefined on a
   * GPU. Memory is taken in pieces that double what is there, or less if memory is scarce.
   * @throws LIMIT_EXCEEDED beyond `maxByteLength`, OUT_OF_MEMORY, RangeError for less than there
   * is, UNSUPPORTED if this follows another process
   */
  grow(byteLength: number): void {
    this.reserve(checkInteger("byteLength", byteLength, this.byteLength));
    this.#memory.setContent(byteLength);
  }

  /** Takes memory for `byteLength` bytes; the content stays as long as it is. Throws as `grow`. */
  reserve(byteLength: number): void {
    this.#checkOpen();
    this.#memory.reserve(checkInteger("byteLength", byteLength, 0), this.label);
  }

  /** All pieces, for a new follower. @throws UNSUPPORTED if this follows another process */
  export(): ExportedGrowing {
    const { fds, growth } = this.exportGrowth(0);
    const device = this.device.reference;
    const version = GROWING_DESCRIPTOR_VERSION;
    return {
      fds,
      descriptor: { version, kind: "growing", device, maxByteLength: this.maxByteLength, growth },
    };
  }

  /** The pieces from number `from` on. @throws UNSUPPORTED if this follows another process */
  exportGrowth(from: number): ExportedGrowth {
    this.#checkOpen();
    checkInteger("from", from, 0, this.pieceCount);
    return this.#memory.exportPieces(from, this.label);
  }

  /**
   * Maps pieces of another process. Pieces that are mapped already are skipped. What was mapped
   * before a failure stays. The descriptors stay the caller's.
   * @throws INVALID_DESCRIPTOR if the pieces are not the next ones, or not what is claimed
   */
  extend(fds: readonly OwnedFd[], growth: Growth): void {
    this.#checkOpen();
    const checked = checkGrowth(growth);
    if (!this.#memory.imported)
      throw new TypeError(`Cannot extend "${this.label}": it grows here; use grow()`);
    this.#memory.extend(fds, checked, this.label);
  }

  /**
   * Fetches and maps what has come since, and returns the bytes of the content.
   * @throws PEER_GONE if the exporter has ended (what is mapped stays), STALE_HANDLE if it shares
   * the memory no longer, UNSUPPORTED if this was not opened by `openShared`, TIMEOUT, ABORTED
   */
  async follow(options: WaitOptions = {}): Promise<number> {
    checkWait(options);
    this.#checkOpen();
    if (this.#fetch === undefined) {
      throw new CudaIpcError(
        "UNSUPPORTED",
        `Cannot follow "${this.label}": only what openShared() opened can be followed`,
      );
    }
    const deadline = new Deadline(`follow "${this.label}"`, options, defaults.peerTimeoutMs);
    const { fds, growth } = await this.#fetch(this.pieceCount, deadline);
    releaseAll([() => this.extend(fds, growth), () => closeFds(fds)]);
    return this.byteLength;
  }

  /** Frees the memory once no transfer and no view uses it; importers keep theirs. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    releaseAll([() => this.#memory.releaseHandles(), () => this.buffer.close()]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot use "${this.label}": it was closed`);
  }
}
