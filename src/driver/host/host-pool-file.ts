/**
 * The memory file of a host pool: a header, a record of each allocation, and the data. Every
 * process that uses the pool maps the whole file once. Only the creator writes header and records;
 * importers check the bytes they get against them.
 */
import { randomBytes } from "node:crypto";
import { roundUp } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import {
  POOL_HEADER_BYTES,
  POOL_RECORD_BYTES,
  POOL_UNIT_BYTES,
  poolDataStart,
} from "../../base/pool-layout.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { libc } from "../../ffi/libc.js";
import { Mapping } from "../../os/mapping.js";
import { createMemoryFile, inspectMemoryFile } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { keepIfSparse } from "../../os/spared-holes.js";
import { systemError } from "../../os/system-error.js";
import { IPC_HANDLE_BYTES } from "../event-calls.js";

const PAGE_BYTES = 4096;
const VERSION = 1;

/*
 * The file, little-endian
 *   0                   8           12          16                 32           40
 *   | magic "cuipcPL\0" | version   | unit 512  | id, 16 bytes     | data bytes | 0 ...
 *   4096: one record for each unit of the data, then 0 up to the next multiple of 4096,
 *         then the data
 *
 * A record, of the allocation that starts at its unit
 *   0             8
 *   | generation  | byteLength |     generation 0: no allocation; no generation is reused
 */
const MAGIC = 0x00_4c_50_63_70_69_75_63n;
const header = {
  magic: 0,
  version: 8,
  unit: 12,
  id: 16,
  dataBytes: 32,
  byteLength: POOL_HEADER_BYTES,
} as const;
const ID_BYTES = 16;

/*
 * The 64 bytes that name an allocation to other processes, little-endian
 *   0                   8         12   16              32       40           48           56
 *   | magic "cuipcPP\0" | version | 0  | id of pool    | offset | byteLength | generation | 0 |
 */
const DATA_MAGIC = 0x00_50_50_63_70_69_75_63n;
const data = { magic: 0, version: 8, id: 16, offset: 32, byteLength: 40, generation: 48 } as const;

/** The bytes of an allocation, from the start of the data. */
export interface PoolExtent {
  readonly offset: number;
  readonly byteLength: number;
}

export class HostPoolFile {
  readonly dataBytes: number;
  readonly #id: Uint8Array;
  readonly #dataStart: number;
  readonly #mapping: Mapping;
  /** For exporting; undefined in an importer. */
  readonly #fd: OwnedFd | undefined;
  #records: BigInt64Array | undefined;
  #generation = 0n;

  private constructor(
    mapping: Mapping,
    id: Uint8Array,
    dataBytes: number,
    fd: OwnedFd | undefined,
  ) {
    this.#mapping = mapping;
    this.#id = id;
    this.dataBytes = dataBytes;
    this.#dataStart = poolDataStart(dataBytes);
    this.#fd = fd;
    const bytes = mapping.view(header.byteLength, recordBytes(dataBytes));
    this.#records = new BigInt64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8);
  }

  /**
   * Creates a pool. A page takes memory when first used.
   * @param dataBytes a multiple of the unit
   */
  static create(dataBytes: number): HostPoolFile {
    checkSize(dataBytes);
    return acquireIn((scope) => {
      const fileBytes = poolDataStart(dataBytes) + dataBytes;
      const fd = scope.own(createMemoryFile("cuda-ipc pool", fileBytes), (fd) => fd.close());
      const mapping = scope.own(Mapping.shared(fd, fileBytes, "read-write"), (mapping) =>
        mapping.close(),
      );
      const id = Uint8Array.from(randomBytes(ID_BYTES));
      const bytes = mapping.view(0, header.byteLength);
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      view.setBigUint64(header.magic, MAGIC, true);
      view.setUint32(header.version, VERSION, true);
      view.setUint32(header.unit, POOL_UNIT_BYTES, true);
      bytes.set(id, header.id);
      view.setBigUint64(header.dataBytes, BigInt(dataBytes), true);
      return new HostPoolFile(mapping, id, dataBytes, fd);
    });
  }

  /** Opens the pool behind a descriptor, which stays the caller's. @throws INVALID_DESCRIPTOR */
  static open(fd: OwnedFd): HostPoolFile {
    const { byteLength, sizeSealed, flaw } = inspectMemoryFile(fd);
    if (flaw !== undefined) throw noPool(flaw);
    if (!sizeSealed || byteLength <= header.byteLength)
      throw noPool("it is no memory file of sealed size");
    return acquireIn((scope) => {
      const mapping = scope.own(mapPool(fd, byteLength), (mapping) => mapping.close());
      keepIfSparse(mapping, fd);
      // WHY a copy: the creator may write at any time, and the checked values must be the used
      // ones.
      const bytes = Uint8Array.from(mapping.view(0, header.byteLength));
      const view = new DataView(bytes.buffer);
      if (view.getBigUint64(header.magic, true) !== MAGIC)
        throw noPool("its file does not start as one");
      const version = view.getUint32(header.version, true);
      if (version !== VERSION || view.getUint32(header.unit, true) !== POOL_UNIT_BYTES) {
        throw noPool(`it is of version ${version}, wanted version ${VERSION}`);
      }
      const dataBytes = Number(view.getBigUint64(header.dataBytes, true));
      const whole = dataBytes > 0 && dataBytes % POOL_UNIT_BYTES === 0 && dataBytes < byteLength;
      if (!whole || poolDataStart(dataBytes) + dataBytes !== byteLength) {
        throw noPool(`it claims ${dataBytes} bytes of data in a file of ${byteLength}`);
      }
      checkSize(dataBytes);
      return new HostPoolFile(
        mapping,
        bytes.slice(header.id, header.id + ID_BYTES),
        dataBytes,
        undefined,
      );
    });
  }

  /** @throws UNSUPPORTED for an imported pool */
  export(): OwnedFd {
    if (this.#fd !== undefined) return this.#fd.duplicate();
    throw new CudaIpcError("UNSUPPORTED", "Cannot export a pool of host: it was imported");
  }

  addressOf(offset: number): bigint {
    return this.#mapping.address + BigInt(this.#dataStart + offset);
  }

  /** Records an allocation. From now on importers accept it. */
  begin({ offset, byteLength }: PoolExtent): void {
    this.#generation += 1n;
    const [records, index] = this.#record(offset);
    Atomics.store(records, index + 1, BigInt(byteLength));
    // SYNC: a reader that sees the generation sees the length too. Pairs with the loads in `find`.
    Atomics.store(records, index, this.#generation);
  }

  /** Removes the record. From now on importers refuse the allocation. */
  end(offset: number): void {
    const [records, index] = this.#record(offset);
    // SYNC: pairs with the loads in `find`.
    Atomics.store(records, index, 0n);
  }

  /** Encodes the bytes that name an allocation to processes with this pool open. */
  describe({ offset, byteLength }: PoolExtent): Uint8Array {
    const [records, index] = this.#record(offset);
    const bytes = new Uint8Array(IPC_HANDLE_BYTES);
    const view = new DataView(bytes.buffer);
    view.setBigUint64(data.magic, DATA_MAGIC, true);
    view.setUint32(data.version, VERSION, true);
    bytes.set(this.#id, data.id);
    view.setBigUint64(data.offset, BigInt(offset), true);
    view.setBigUint64(data.byteLength, BigInt(byteLength), true);
    view.setBigUint64(data.generation, BigInt.asUintN(64, records[index] as bigint), true);
    return bytes;
  }

  /** Finds the allocation that untrusted bytes name. @throws INVALID_HANDLE */
  find(bytes: Uint8Array): PoolExtent {
    if (bytes.byteLength !== IPC_HANDLE_BYTES) {
      throw invalid(`found ${bytes.byteLength} bytes, wanted ${IPC_HANDLE_BYTES}`);
    }
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (
      view.getBigUint64(data.magic, true) !== DATA_MAGIC ||
      view.getUint32(data.version, true) !== VERSION
    ) {
      throw invalid("the bytes name no allocation of a host pool");
    }
    if (!this.#id.every((byte, i) => byte === bytes[data.id + i]))
      throw invalid("they are of another pool");
    const offset = Number(view.getBigUint64(data.offset, true));
    const byteLength = Number(view.getBigUint64(data.byteLength, true));
    if (offset % POOL_UNIT_BYTES !== 0 || byteLength < 1 || offset + byteLength > this.dataBytes) {
      throw invalid(`${byteLength} bytes at ${offset} are outside of a pool of ${this.dataBytes}`);
    }
    const [records, index] = this.#record(offset);
    const generation = view.getBigInt64(data.generation, true);
    // SYNC: pairs with the stores in `begin` and `end`. The generation is loaded again after the
    // length, which proves that the length belongs to it.
    const found = generation !== 0n && Atomics.load(records, index) === generation;
    const length = Atomics.load(records, index + 1);
    if (!found || Atomics.load(records, index) !== generation) throw invalid("it was freed");
    if (length !== BigInt(byteLength)) throw invalid(`it has ${length} bytes, not ${byteLength}`);
    return { offset, byteLength };
  }

  /** Frees the whole pages behind the offset. They read as zero afterwards. */
  discardFrom(offset: number): void {
    if (this.#fd === undefined) return;
    const start = roundUp(this.#dataStart + offset, PAGE_BYTES);
    const length = this.#dataStart + this.dataBytes - start;
    if (length <= 0) return;
    const [KEEP_SIZE, PUNCH_HOLE] = [1, 2];
    if (libc().fallocate(this.#fd.number, KEEP_SIZE | PUNCH_HOLE, start, length) < 0) {
      throw systemError(`give back ${length} bytes of a pool of host`, "fallocate");
    }
  }

  close(): void {
    this.#records = undefined;
    releaseAll([() => this.#mapping.close(), () => this.#fd?.close()]);
  }

  #record(offset: number): [records: BigInt64Array, index: number] {
    if (this.#records === undefined)
      throw new CudaIpcError("CLOSED", "Cannot use a pool of host: it was destroyed");
    return [this.#records, (offset / POOL_UNIT_BYTES) * (POOL_RECORD_BYTES / 8)];
  }
}

function recordBytes(dataBytes: number): number {
  return (dataBytes / POOL_UNIT_BYTES) * POOL_RECORD_BYTES;
}

/** The size is limited because all records are one view of memory. */
function checkSize(dataBytes: number): void {
  if (recordBytes(dataBytes) <= limits.viewBytesMax) return;
  const max = Math.floor(limits.viewBytesMax / POOL_RECORD_BYTES) * POOL_UNIT_BYTES;
  const found = `the limit of this version of Node is ${max}`;
  const message = `Cannot use a pool of ${dataBytes} bytes on host: ${found}`;
  throw new CudaIpcError("LIMIT_EXCEEDED", message);
}

function mapPool(fd: OwnedFd, byteLength: number): Mapping {
  try {
    return Mapping.shared(fd, byteLength, "read-write");
  } catch (cause) {
    const message = "Cannot import a pool of host: its file cannot be mapped for writing";
    throw new CudaIpcError("INVALID_DESCRIPTOR", message, { cause });
  }
}

function noPool(found: string): CudaIpcError {
  return new CudaIpcError("INVALID_DESCRIPTOR", `Cannot import a pool of host: ${found}`);
}

function invalid(found: string): CudaIpcError {
  return new CudaIpcError("INVALID_HANDLE", `Cannot import memory of a pool of host: ${found}`);
}
