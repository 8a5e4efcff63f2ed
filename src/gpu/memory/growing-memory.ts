/**
 * Memory that grows without moving: addresses are reserved once, and pieces are mapped behind each
 * other as they are needed. Pieces double what is there, so that there are few of them.
 */
import { checkInteger, formatBytes, roundUp } from "../../base/bytes.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { DriverMemory, Mechanism } from "../../driver/gpu-driver.js";
import type { DriverReservation } from "../../driver/memory-calls.js";
import { isDeviceMemory } from "../../os/foreign-fd.js";
import type { Access } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { Growth } from "../../wire/growing-descriptor.js";
import type { Device } from "../device.js";
import { MappedMemory, type MemoryDescriptor } from "./mapped-memory.js";

/** File descriptors of pieces, which the caller closes, and what describes the pieces. */
export interface ExportedGrowth {
  readonly fds: readonly OwnedFd[];
  readonly growth: Growth;
}

export class GrowingMemory extends MappedMemory {
  readonly mechanism: Mechanism;
  readonly #access: Access;
  readonly #reservation: DriverReservation;
  /** The driver's handles of the pieces, which exports need. Undefined in a follower. */
  readonly #handles: DriverMemory[] | undefined;
  readonly #pieceByteLengths: number[] = [];
  #contentByteLength = 0;

  private constructor(
    device: Device,
    reservation: DriverReservation,
    access: Access,
    follows: boolean,
  ) {
    super(device, reservation.pointer, 0);
    this.mechanism = device.driver.mechanism;
    this.#reservation = reservation;
    this.#access = access;
    this.#handles = follows ? undefined : [];
  }

  /** @param follows true if the memory grows in another process */
  static reserve(
    device: Device,
    maxByteLength: number,
    access: Access,
    follows: boolean,
  ): GrowingMemory {
    checkInteger("maxByteLength", maxByteLength, 1);
    const { driver, ordinal, facts } = device;
    const byteLength = roundUp(maxByteLength, facts.granularityBytes);
    return acquireIn((scope) => {
      const reservation = driver.reserveAddresses(ordinal, byteLength);
      scope.defer(() => driver.releaseReservation(reservation));
      return new GrowingMemory(device, reservation, access, follows);
    });
  }

  get imported(): boolean {
    return this.#handles === undefined;
  }

  get maxByteLength(): number {
    return this.#reservation.byteLength;
  }

  get pieceCount(): number {
    return this.#pieceByteLengths.length;
  }

  override get contentByteLength(): number {
    return this.#contentByteLength;
  }

  /** The content is `byteLength` long from here on; there is memory for it. */
  setContent(byteLength: number): void {
    this.#contentByteLength = byteLength;
  }

  /** Ensures that there is memory for `byteLength` bytes. @throws LIMIT_EXCEEDED, OUT_OF_MEMORY */
  reserve(byteLength: number, label: string): void {
    const handles = this.#handlesFor("grow", label);
    const missing = byteLength - this.#reservation.mappedBytes;
    if (missing > 0) this.#takePiece(handles, missing, label);
  }

  /** The pieces from number `from` on, for a process that has those before. */
  exportPieces(from: number, label: string): ExportedGrowth {
    const { driver } = this.device;
    const handles = this.#handlesFor("export", label).slice(from);
    const fds = acquireIn((scope) =>
      handles.map((it) => scope.own(driver.exportMemory(it), (fd) => fd.close())),
    );
    const byteLengths = handles.map((it) => it.byteLength);
    return { fds, growth: { from, byteLengths, byteLength: this.#contentByteLength } };
  }

  /**
   * Maps the pieces that came since. Pieces that are mapped already are skipped, so that an answer
   * may come twice. What was mapped before a failure stays.
   * @throws INVALID_DESCRIPTOR if the pieces are not the next ones, or not what is claimed
   */
  extend(fds: readonly OwnedFd[], { from, byteLengths, byteLength }: Growth, label: string): void {
    const refuse = (found: string) =>
      new CudaIpcError("INVALID_DESCRIPTOR", `Cannot extend "${label}": ${found}`);
    if (fds.length !== byteLengths.length)
      throw refuse(`${byteLengths.length} pieces with ${fds.length} file descriptors`);
    if (from > this.pieceCount)
      throw refuse(`pieces from ${from} on, wanted from ${this.pieceCount}`);
    const known = this.pieceCount - from;
    const differs = (length: number, i: number) => length !== this.#pieceByteLengths[from + i];
    if (byteLengths.slice(0, known).some(differs))
      throw refuse("its first pieces are of other sizes than those that are here");
    for (let i = known; i < fds.length; i += 1)
      this.#importPiece(fds[i] as OwnedFd, byteLengths[i] as number, label);
    if (byteLength > this.byteLength)
      throw refuse(`content of ${byteLength} bytes in pieces of ${this.byteLength}`);
    if (byteLength > this.#contentByteLength) this.#contentByteLength = byteLength;
  }

  /** Gives the handles up: nothing is exported after this. The mapping stays. */
  releaseHandles(): void {
    const { driver } = this.device;
    releaseAll((this.#handles?.splice(0) ?? []).map((it) => () => driver.releaseMemory(it)));
  }

  describe(label: string): MemoryDescriptor {
    throw this.#inPieces(label);
  }

  exportFd(label: string): OwnedFd {
    throw this.#inPieces(label);
  }

  protected unmap(): void {
    this.device.driver.releaseReservation(this.#reservation);
  }

  #takePiece(handles: DriverMemory[], missing: number, label: string): void {
    const { mappedBytes } = this.#reservation;
    const room = this.maxByteLength - mappedBytes;
    if (missing > room) {
      const wanted = formatBytes(mappedBytes + missing);
      const limit = `its limit (maxByteLength) is ${formatBytes(this.maxByteLength)}`;
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot grow "${label}" to ${wanted}, ${limit}`);
    }
    this.#checkPieceCount(label);
    const needed = roundUp(missing, this.device.facts.granularityBytes);
    const doubling = Math.min(Math.max(needed, mappedBytes), room);
    try {
      this.#createPiece(handles, doubling);
    } catch (error) {
      if (doubling === needed || !hasCode(error, "OUT_OF_MEMORY")) throw error;
      this.#createPiece(handles, needed);
    }
  }

  #createPiece(handles: DriverMemory[], byteLength: number): void {
    const { driver, ordinal } = this.device;
    acquireIn((scope) => {
      const memory = driver.createMemory(ordinal, byteLength);
      scope.own(memory, (it) => driver.releaseMemory(it));
      this.#map(memory);
      handles.push(memory);
    });
  }

  #importPiece(fd: OwnedFd, byteLength: number, label: string): void {
    this.#checkPieceCount(label);
    const { driver, ordinal } = this.device;
    // A driver that is given a file of FUSE can wait for its server.
    if (!isDeviceMemory(fd)) {
      const found = `piece ${this.pieceCount} is neither memory nor of a GPU`;
      throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot extend "${label}": ${found}`);
    }
    const memory = driver.importMemory(ordinal, fd, byteLength);
    try {
      this.#map(memory);
    } finally {
      // The mapping keeps the memory. An imported handle is of no other use.
      driver.releaseMemory(memory);
    }
  }

  #map(memory: DriverMemory): void {
    this.device.driver.extendMapping(this.#reservation, memory, this.#access);
    this.#pieceByteLengths.push(memory.byteLength);
    this.grownTo(this.#reservation.mappedBytes);
  }

  #handlesFor(verb: string, label: string): DriverMemory[] {
    if (this.#handles !== undefined) return this.#handles;
    throw new CudaIpcError("UNSUPPORTED", `Cannot ${verb} "${label}": it grows in another process`);
  }

  #checkPieceCount(label: string): void {
    if (this.pieceCount < limits.growingPiecesMax) return;
    const found = `it has ${this.pieceCount} pieces, the limit (growingPiecesMax)`;
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot grow "${label}": ${found}; grow in larger steps`,
    );
  }

  #inPieces(label: string): CudaIpcError {
    return new CudaIpcError(
      "UNSUPPORTED",
      `Cannot share "${label}" by name: it is memory that grows; use share()`,
    );
  }
}
