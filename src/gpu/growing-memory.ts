/**
 * Memory that grows without moving: addresses are reserved once, and pieces of memory are mapped behind each other as they are needed.
 * What was in it stays, at the same address, here and in every process that follows.
 */
import { checkInteger, formatBytes, roundUp } from "../base/bytes.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { DevicePointer, DriverMemory } from "../driver/gpu-driver.js";
import type { DriverReservation } from "../driver/reservation-calls.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import {
  checkGrowingDescriptor,
  checkGrowth,
  GROWING_DESCRIPTOR_VERSION,
  type GrowingDescriptor,
  type Growth,
} from "../wire/growing-descriptor.js";
import type { Device } from "./device.js";
import { DeviceBuffer } from "./device-buffer.js";
import { MappedMemory } from "./mapped-memory.js";

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
}

/** Pieces of memory: their descriptors, which the caller closes, and what describes them. */
export interface ExportedGrowth {
  readonly fds: readonly OwnedFd[];
  readonly growth: Growth;
}

export interface ExportedGrowing {
  readonly fds: readonly OwnedFd[];
  readonly descriptor: GrowingDescriptor;
}

export class GrowingBuffer {
  readonly device: Device;
  readonly label: string;
  readonly access: Access;
  /** The same from first to last. */
  readonly buffer: DeviceBuffer;
  readonly #reservation: DriverReservation;
  readonly #mapped: MappedMemory;
  /** The driver's handles of the pieces, for exporting; none where this follows another process. */
  readonly #memories: DriverMemory[] | undefined;
  readonly #pieceByteLengths: number[] = [];
  #open = true;

  private constructor(
    label: string,
    access: Access,
    reserved: { readonly reservation: DriverReservation; readonly mapped: MappedMemory; readonly buffer: DeviceBuffer },
    memories: DriverMemory[] | undefined,
  ) {
    this.device = reserved.mapped.device;
    this.label = label;
    this.access = access;
    this.buffer = reserved.buffer;
    this.#reservation = reserved.reservation;
    this.#mapped = reserved.mapped;
    this.#memories = memories;
  }

  /** @throws OUT_OF_MEMORY, LIMIT_EXCEEDED for more than `maxByteLength` */
  static create(device: Device, { byteLength, maxByteLength, label = "growing" }: GrowingOptions): GrowingBuffer {
    return acquireIn((scope) => {
      const growing = scope.own(GrowingBuffer.#reserve(device, maxByteLength, label, "read-write", []), (it) =>
        it.close(),
      );
      growing.grow(byteLength);
      return growing;
    });
  }

  /**
   * Follows memory that grows in another process. The descriptors stay the caller's and may be closed afterwards.
   * @throws INVALID_DESCRIPTOR where the memory is not what is claimed
   */
  static import(
    device: Device,
    fds: readonly OwnedFd[],
    descriptor: GrowingDescriptor,
    { access = "read", label = "growing" }: GrowingImportOptions = {},
  ): GrowingBuffer {
    const { maxByteLength, growth, device: from } = checkGrowingDescriptor(descriptor);
    if (!device.isSameKindAs(from)) {
      const message = `Cannot import "${label}" on ${device.name}: it is memory of device ${from.kind}`;
      throw new CudaIpcError("INVALID_DESCRIPTOR", message);
    }
    return acquireIn((scope) => {
      const growing = scope.own(GrowingBuffer.#reserve(device, maxByteLength, label, access, undefined), (it) =>
        it.close(),
      );
      growing.extend(fds, growth);
      return growing;
    });
  }

  static #reserve(
    device: Device,
    maxByteLength: number,
    label: string,
    access: Access,
    memories: DriverMemory[] | undefined,
  ): GrowingBuffer {
    checkInteger("maxByteLength", maxByteLength, 1);
    const { driver, ordinal, facts } = device;
    const { mapped, reservation } = acquireIn((scope) => {
      const reservation = driver.reserveAddresses(ordinal, roundUp(maxByteLength, facts.granularityBytes));
      const unmap = () => driver.releaseReservation(reservation);
      scope.defer(unmap);
      const { pointer } = reservation;
      return {
        reservation,
        mapped: new MappedMemory(device, { pointer, byteLength: 0, mechanism: driver.mechanism, unmap }),
      };
    });
    const buffer = DeviceBuffer.over(mapped, { label, byteLength: 0, access });
    return new GrowingBuffer(label, access, { reservation, mapped, buffer }, memories);
  }

  get open(): boolean {
    return this.#open;
  }

  /** Where the memory is, from first to last. */
  get pointer(): DevicePointer {
    return this.buffer.pointer;
  }

  /** Bytes of the content. */
  get byteLength(): number {
    return this.buffer.byteLength;
  }

  /** The most that there can be of it. */
  get maxByteLength(): number {
    return this.#reservation.byteLength;
  }

  /** How many pieces there are: what a follower has, and asks the next from. */
  get pieceCount(): number {
    return this.#pieceByteLengths.length;
  }

  /**
   * Makes the content `byteLength` long; what is new is zero on the host device and undefined on a GPU. Memory is taken in pieces that
   * double what is there, so that there are few of them, and no more than is needed where there is not so much.
   * @throws LIMIT_EXCEEDED beyond `maxByteLength`, OUT_OF_MEMORY, RangeError for less than there is, UNSUPPORTED where this follows another
   */
  grow(byteLength: number): void {
    this.reserve(checkInteger("byteLength", byteLength, this.byteLength));
    this.buffer.grownTo(byteLength);
  }

  /** Sees to it that there is memory for `byteLength` bytes, of which the content stays as long as it is. Throws as `grow` does. */
  reserve(byteLength: number): void {
    this.#checkOpen();
    checkInteger("byteLength", byteLength, 0);
    if (this.#memories === undefined) throw this.#notHere("grow");
    const missing = byteLength - this.#reservation.mappedBytes;
    if (missing > 0) this.#takePiece(this.#memories, missing);
  }

  /** Everything that there is, for a process that begins to follow. @throws UNSUPPORTED where this follows another */
  export(): ExportedGrowing {
    const { fds, growth } = this.exportGrowth(0);
    const device = this.device.reference;
    const version = GROWING_DESCRIPTOR_VERSION;
    return { fds, descriptor: { version, kind: "growing", device, maxByteLength: this.maxByteLength, growth } };
  }

  /** The pieces from number `from` on, for a process that has those before. @throws UNSUPPORTED where this follows another */
  exportGrowth(from: number): ExportedGrowth {
    this.#checkOpen();
    checkInteger("from", from, 0, this.pieceCount);
    if (this.#memories === undefined) throw this.#notHere("export");
    const { driver } = this.device;
    const memories = this.#memories.slice(from);
    const fds = acquireIn((scope) => memories.map((it) => scope.own(driver.exportMemory(it), (fd) => fd.close())));
    const byteLengths = memories.map((it) => it.byteLength);
    return { fds, growth: { from, byteLengths, byteLength: this.byteLength } };
  }

  /**
   * Maps the pieces that came since. Those that are mapped here already are passed over, so that an answer may come twice; what
   * was mapped before a failure stays. The descriptors stay the caller's.
   * @throws INVALID_DESCRIPTOR where the pieces are not the next ones, or not what is claimed
   */
  extend(fds: readonly OwnedFd[], growth: Growth): void {
    this.#checkOpen();
    const { from, byteLengths, byteLength } = checkGrowth(growth);
    if (this.#memories !== undefined) throw new TypeError(`Cannot extend "${this.label}": it grows here; use grow()`);
    if (fds.length !== byteLengths.length) {
      throw this.#contradiction(`${byteLengths.length} pieces with ${fds.length} file descriptors`);
    }
    if (from > this.pieceCount) throw this.#contradiction(`pieces from ${from} on, wanted from ${this.pieceCount}`);
    const known = this.pieceCount - from;
    if (byteLengths.slice(0, known).some((length, i) => length !== this.#pieceByteLengths[from + i])) {
      throw this.#contradiction("its first pieces are of other sizes than those that are here");
    }
    for (let i = known; i < fds.length; i += 1) this.#importPiece(fds[i] as OwnedFd, byteLengths[i] as number);
    if (byteLength > this.#mapped.byteLength) {
      throw this.#contradiction(`content of ${byteLength} bytes in pieces of ${this.#mapped.byteLength}`);
    }
    if (byteLength > this.byteLength) this.buffer.grownTo(byteLength);
  }

  /** Gives the memory back once no transfer and no view uses it any more; importers keep theirs. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const memories = this.#memories?.splice(0) ?? [];
    releaseAll([...memories.map((it) => () => this.device.driver.releaseMemory(it)), () => this.buffer.close()]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #takePiece(memories: DriverMemory[], missing: number): void {
    const { mappedBytes } = this.#reservation;
    const room = this.maxByteLength - mappedBytes;
    if (missing > room) {
      const wanted = `${formatBytes(mappedBytes + missing)}, its limit (maxByteLength) is ${formatBytes(this.maxByteLength)}`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot grow "${this.label}" to ${wanted}`);
    }
    this.#checkPieceCount();
    const needed = roundUp(missing, this.device.facts.granularityBytes);
    const doubling = Math.min(Math.max(needed, mappedBytes), room);
    try {
      this.#createPiece(memories, doubling);
    } catch (error) {
      if (doubling === needed || !hasCode(error, "OUT_OF_MEMORY")) throw error;
      this.#createPiece(memories, needed);
    }
  }

  #createPiece(memories: DriverMemory[], byteLength: number): void {
    const { driver, ordinal } = this.device;
    acquireIn((scope) => {
      const memory = scope.own(driver.createMemory(ordinal, byteLength), (it) => driver.releaseMemory(it));
      this.#map(memory);
      memories.push(memory);
    });
  }

  #importPiece(fd: OwnedFd, byteLength: number): void {
    this.#checkPieceCount();
    const { driver, ordinal } = this.device;
    const memory = driver.importMemory(ordinal, fd, byteLength);
    try {
      this.#map(memory);
    } finally {
      // WHY released at once: the mapping keeps the memory, and nothing else is done with an imported handle.
      driver.releaseMemory(memory);
    }
  }

  #map(memory: DriverMemory): void {
    this.device.driver.extendMapping(this.#reservation, memory, this.access);
    this.#pieceByteLengths.push(memory.byteLength);
    this.#mapped.grownTo(this.#reservation.mappedBytes);
  }

  #checkPieceCount(): void {
    if (this.pieceCount < limits.growingPiecesMax) return;
    const found = `it has ${this.pieceCount} pieces, the limit (growingPiecesMax); grow in larger steps`;
    throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot grow "${this.label}": ${found}`);
  }

  #notHere(verb: string): CudaIpcError {
    return new CudaIpcError("UNSUPPORTED", `Cannot ${verb} "${this.label}": it grows in another process`);
  }

  #contradiction(found: string): CudaIpcError {
    return new CudaIpcError("INVALID_DESCRIPTOR", `Cannot extend "${this.label}": ${found}`);
  }

  #checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot use "${this.label}": it was closed`);
  }
}
