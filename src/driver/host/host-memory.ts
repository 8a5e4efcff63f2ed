/**
 * The host device's memory: sealed memory files as physical memory, their descriptors, and every range of addresses that the driver
 * has handed out. An operation on any other address is refused, so that a mistake is an exception and not the end of the process.
 */
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { acquireIn } from "../../base/scope.js";
import { viewMemory } from "../../ffi/koffi.js";
import { type Access, Mapping } from "../../os/mapping.js";
import { createMemoryFile, inspectMemoryFile } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { type AddressRange, AddressTable, formatAddress } from "../address-table.js";
import type { DevicePointer, DriverMemory, HostPointer, StagingMemory } from "../gpu-driver.js";
import { checkMemorySize, checkWithin } from "../operation-checks.js";
import { refuseOverCapacity } from "./host-capacity.js";

export const HOST_GRANULARITY_BYTES = 4096;

class HostMemory implements DriverMemory {
  readonly place = "device";
  readonly ordinal = 0;
  readonly byteLength: number;
  readonly fd: OwnedFd;

  constructor(fd: OwnedFd, byteLength: number) {
    this.fd = fd;
    this.byteLength = byteLength;
  }
}

class HostStaging implements StagingMemory {
  readonly ordinal = 0;
  readonly mapping: Mapping;
  readonly bytes: Uint8Array;

  constructor(mapping: Mapping) {
    this.mapping = mapping;
    this.bytes = mapping.view(0, mapping.byteLength);
  }

  get address(): HostPointer {
    return this.mapping.address;
  }

  get byteLength(): number {
    return this.mapping.byteLength;
  }
}

interface HostRange extends AddressRange {
  /** Ended with the range; undefined where the mapping is another's (registered memory, pools, reservations). */
  readonly mapping: Mapping | undefined;
  words: BigInt64Array | undefined;
}

export class HostMemories {
  readonly #mapped = new AddressTable<HostRange>("Mapped memory");
  readonly #staging = new AddressTable<HostRange>("Staging memory");
  readonly #registered = new AddressTable<HostRange>("Registered memory");

  create(byteLength: number): DriverMemory {
    checkMemorySize(byteLength, HOST_GRANULARITY_BYTES);
    refuseOverCapacity(byteLength);
    return new HostMemory(createMemoryFile("cuda-ipc", byteLength), byteLength);
  }

  export(memory: DriverMemory): OwnedFd {
    return this.#usable(memory, "export").fd.duplicate();
  }

  /** Shrinking a file under those who map it would end them, so one whose size is not sealed is not taken. */
  import(fd: OwnedFd, byteLength: number): DriverMemory {
    const found = inspectMemoryFile(fd);
    const attempt = `Cannot import ${byteLength} bytes of host memory`;
    if (found.flaw !== undefined) throw new CudaIpcError("INVALID_DESCRIPTOR", `${attempt}: ${found.flaw}`);
    if (!Number.isSafeInteger(byteLength) || byteLength <= 0 || byteLength > found.byteLength) {
      throw new CudaIpcError("INVALID_DESCRIPTOR", `${attempt}: the file has ${found.byteLength} bytes`);
    }
    if (!found.sizeSealed) {
      throw new CudaIpcError("INVALID_DESCRIPTOR", `${attempt}: it is no memory file of sealed size`);
    }
    return new HostMemory(fd.duplicate(), byteLength);
  }

  release(memory: DriverMemory): void {
    this.#usable(memory, "release").fd.close();
  }

  map(memory: DriverMemory, access: Access): DevicePointer {
    const { fd, byteLength } = this.#usable(memory, "map");
    return acquireIn((scope) => {
      const mapping = mapFile(byteLength, access, () => Mapping.shared(fd, byteLength, access));
      return this.add(
        scope.own(mapping, (mapping) => mapping.close()),
        access,
      );
    });
  }

  /** Takes over a mapping, which is memory of this driver from here on until `unmap`. */
  add(mapping: Mapping, access: Access): DevicePointer {
    const { address, byteLength } = mapping;
    this.#mapped.add({ start: address, byteLength, access, mapping, words: undefined });
    return address;
  }

  unmap(pointer: DevicePointer): void {
    const mapping = this.#mapped.at(pointer)?.mapping;
    if (mapping === undefined) throw new RangeError(`Cannot unmap ${formatAddress(pointer)}: nothing is mapped there`);
    this.#mapped.remove(pointer);
    mapping.close();
  }

  /** Maps memory into addresses that were reserved; who reserved them adds the range and ends it. */
  place(memory: DriverMemory, into: Mapping, byteOffset: number, access: Access): void {
    const { fd, byteLength } = this.#usable(memory, "map");
    mapFile(byteLength, access, () => into.place(byteOffset, fd, byteLength, access));
  }

  /** Memory of another mechanism, so that what is enqueued on it is checked too. It stays mapped until `removeRange`. */
  addRange(range: AddressRange): void {
    this.#mapped.add({ ...range, mapping: undefined, words: undefined });
  }

  removeRange(start: DevicePointer): AddressRange | undefined {
    return this.#mapped.remove(start);
  }

  allocateStaging(byteLength: number): StagingMemory {
    checkInteger("Staging: byteLength", byteLength, 1, limits.viewBytesMax);
    return acquireIn((scope) => {
      const mapping = scope.own(Mapping.anonymous(byteLength), (mapping) => mapping.close());
      const staging = new HostStaging(mapping);
      this.#staging.add({ start: staging.address, byteLength, access: "read-write", mapping, words: undefined });
      return staging;
    });
  }

  freeStaging(staging: StagingMemory): void {
    if (!(staging instanceof HostStaging)) throw new TypeError("Cannot free staging memory of another driver");
    if (this.#staging.at(staging.address)?.mapping !== staging.mapping) {
      throw new CudaIpcError("CLOSED", "Cannot free staging memory: it was freed");
    }
    this.#staging.remove(staging.address);
    staging.mapping.close();
  }

  /** SAFETY: the caller keeps the memory mapped, at least as accessible as `access` says, until it is unregistered. */
  register(pointer: HostPointer, byteLength: number, access: Access): DevicePointer {
    checkInteger("Registered memory: byteLength", byteLength, 1);
    this.#registered.add({ start: pointer, byteLength, access, mapping: undefined, words: undefined });
    return pointer;
  }

  unregister(pointer: HostPointer): void {
    if (this.#registered.remove(pointer) !== undefined) return;
    throw new RangeError(`Cannot unregister ${formatAddress(pointer)}: nothing is registered there`);
  }

  /** @throws RangeError outside of all memory of this driver, READ_ONLY where a write is asked for and only reading allowed */
  check(address: bigint, byteLength: number, access: Access): void {
    this.#range(address, byteLength, access);
  }

  /** A 64-bit word in place, for Atomics: `words[index]`. */
  word(address: bigint, access: Access): { readonly words: BigInt64Array; readonly index: number } {
    const range = this.#range(address, 8, access);
    // WHY windows: one view for small ranges, which hold nearly all words, and one for the word alone where a view has no room.
    if (range.byteLength > limits.viewBytesMax || range.start % 8n !== 0n) {
      return { words: new BigInt64Array(viewMemory(address, 8)), index: 0 };
    }
    // SAFETY: looked up with its range each time, so that no view outlives the range; nobody outside of this driver sees it.
    range.words ??= new BigInt64Array(viewMemory(range.start, range.byteLength - (range.byteLength % 8)));
    return { words: range.words, index: Number(address - range.start) / 8 };
  }

  #range(address: bigint, byteLength: number, access: Access): HostRange {
    const range = this.#mapped.holding(address) ?? this.#staging.holding(address) ?? this.#registered.holding(address);
    if (range === undefined) {
      throw new RangeError(`${formatAddress(address)} is not in any mapped, registered or staging memory`);
    }
    checkWithin(range, address, byteLength, access);
    return range;
  }

  #usable(memory: DriverMemory, verb: string): HostMemory {
    if (!(memory instanceof HostMemory)) throw new TypeError(`Cannot ${verb} memory of another driver`);
    if (memory.fd.closed) throw new CudaIpcError("CLOSED", `Cannot ${verb} host memory: it was released`);
    return memory;
  }
}

/** A descriptor through which nothing can be written says so with EACCES, a file that is sealed against it with EPERM. */
function mapFile<T>(byteLength: number, access: Access, map: () => T): T {
  try {
    return map();
  } catch (error) {
    if (access === "read" || !hasCode(error, "PERMISSION_DENIED")) throw error;
    const message = `Cannot map ${byteLength} bytes of host memory for writing: the descriptor is for reading only`;
    throw new CudaIpcError("READ_ONLY", message, { cause: error });
  }
}
