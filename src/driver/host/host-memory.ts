/**
 * Memory of the host device: sealed memory files and their mappings, memory that grows, staging
 * memory, and registered memory.
 */
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { acquireIn } from "../../base/scope.js";
import { type Access, Mapping } from "../../os/mapping.js";
import { createMemoryFile, inspectMemoryFile } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { keepIfSparse } from "../../os/spared-holes.js";
import { checkExtension, checkMemorySize } from "../common/argument-checks.js";
import type {
  DriverMemory,
  DriverReservation,
  HostPointer,
  MemoryCalls,
  MemoryPlace,
  StagingMemory,
} from "../memory-calls.js";
import type { HostAddresses } from "./host-addresses.js";
import { refuseOverCapacity } from "./host-capacity.js";
import type { HostSession } from "./host-session.js";

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

class HostReservation implements DriverReservation {
  readonly ordinal = 0;
  readonly mapping: Mapping;
  mappedBytes = 0;
  /** The access of all pieces; undefined before the first. */
  access: Access | undefined;
  released = false;

  constructor(mapping: Mapping) {
    this.mapping = mapping;
  }

  get pointer(): bigint {
    return this.mapping.address;
  }

  get byteLength(): number {
    return this.mapping.byteLength;
  }
}

type PhysicalMemoryCalls = Pick<
  MemoryCalls,
  "createMemory" | "exportMemory" | "importMemory" | "releaseMemory"
>;
type MappingCalls = Pick<MemoryCalls, "mapMemory" | "unmapMemory" | "cpuAddress">;
type ReservationCalls = Pick<
  MemoryCalls,
  "reserveAddresses" | "extendMapping" | "releaseReservation"
>;
type CpuMemoryCalls = Pick<
  MemoryCalls,
  "allocateStaging" | "freeStaging" | "registerHostMemory" | "unregisterHostMemory"
>;

export function hostMemory(session: HostSession, addresses: HostAddresses): MemoryCalls {
  return {
    ...physicalMemoryCalls(session),
    ...mappingCalls(session, addresses),
    ...reservationCalls(session, addresses),
    ...cpuMemoryCalls(session, addresses),
  };
}

function physicalMemoryCalls(session: HostSession): PhysicalMemoryCalls {
  return {
    createMemory(ordinal, byteLength, place) {
      session.use(ordinal);
      checkPlace(place);
      checkMemorySize(byteLength, HOST_GRANULARITY_BYTES);
      refuseOverCapacity(byteLength);
      return new HostMemory(createMemoryFile("cuda-ipc", byteLength), byteLength);
    },

    exportMemory(memory) {
      session.use();
      return usableMemory(memory, "export").fd.duplicate();
    },

    /** WHY the size must be sealed: if the file shrinks, an access behind its end is a SIGBUS. */
    importMemory(ordinal, fd, byteLength, place) {
      session.use(ordinal);
      checkPlace(place);
      const file = inspectMemoryFile(fd);
      if (file.flaw !== undefined) throw importRefusal(byteLength, file.flaw);
      if (!Number.isSafeInteger(byteLength) || byteLength <= 0 || byteLength > file.byteLength)
        throw importRefusal(byteLength, `the file has ${file.byteLength} bytes`);
      if (!file.sizeSealed) throw importRefusal(byteLength, "it is no memory file of sealed size");
      return new HostMemory(fd.duplicate(), byteLength);
    },

    releaseMemory(memory) {
      session.use();
      usableMemory(memory, "release").fd.close();
    },
  };
}

function mappingCalls(session: HostSession, addresses: HostAddresses): MappingCalls {
  return {
    mapMemory(memory, access) {
      session.use();
      const { fd, byteLength } = usableMemory(memory, "map");
      return acquireIn((scope) => {
        const isCopy = access === "copy";
        const use = isCopy ? "read-write" : access;
        const map = () =>
          isCopy ? Mapping.copyOnWrite(fd, byteLength) : Mapping.shared(fd, byteLength, use);
        const mapping = scope.own(mapFile(byteLength, use, map), (it) => it.close());
        if (!isCopy) keepIfSparse(mapping, fd);
        return addresses.addMapping(mapping, use);
      });
    },

    unmapMemory(ordinal, pointer) {
      session.use(ordinal);
      addresses.unmap(pointer);
    },

    cpuAddress(pointer) {
      session.use();
      addresses.check(pointer, 1, "read");
      return pointer;
    },
  };
}

function reservationCalls(session: HostSession, addresses: HostAddresses): ReservationCalls {
  return {
    reserveAddresses(ordinal, byteLength) {
      session.use(ordinal);
      checkMemorySize(byteLength, HOST_GRANULARITY_BYTES);
      return new HostReservation(Mapping.reserved(byteLength));
    },

    extendMapping(reservation, memory, access) {
      session.use();
      const own = usableReservation(reservation, "extend");
      checkExtension(own, memory, access);
      const { fd, byteLength } = usableMemory(memory, "map");
      const mapAll = () => own.mapping.place(own.mappedBytes, fd, byteLength, access);
      mapFile(byteLength, access, mapAll);
      if (own.mappedBytes > 0) addresses.removeRange(own.pointer);
      own.mappedBytes += byteLength;
      own.access = access;
      addresses.addRange({ start: own.pointer, byteLength: own.mappedBytes, access });
    },

    releaseReservation(reservation) {
      session.use();
      const own = usableReservation(reservation, "release");
      own.released = true;
      if (own.mappedBytes > 0) addresses.removeRange(own.pointer);
      own.mapping.close();
    },
  };
}

function cpuMemoryCalls(session: HostSession, addresses: HostAddresses): CpuMemoryCalls {
  return {
    allocateStaging(ordinal, byteLength) {
      session.use(ordinal);
      checkInteger("Staging: byteLength", byteLength, 1, limits.viewBytesMax);
      return acquireIn((scope) => {
        const mapping = scope.own(Mapping.anonymous(byteLength), (it) => it.close());
        const staging = new HostStaging(mapping);
        addresses.addStaging(mapping);
        return staging;
      });
    },

    freeStaging(staging) {
      session.use();
      if (!(staging instanceof HostStaging))
        throw new TypeError("Cannot free staging memory of another driver");
      if (!addresses.removeStaging(staging.mapping))
        throw new CudaIpcError("CLOSED", "Cannot free staging memory: it was freed");
    },

    registerHostMemory(ordinal, pointer, byteLength, access) {
      session.use(ordinal);
      checkInteger("Registered memory: byteLength", byteLength, 1);
      addresses.register(pointer, byteLength, access);
      return pointer;
    },

    unregisterHostMemory(ordinal, pointer) {
      session.use(ordinal);
      addresses.unregister(pointer);
    },
  };
}

function checkPlace(place: MemoryPlace | undefined): void {
  if (place === undefined || place === "device") return;
  throw new CudaIpcError(
    "UNSUPPORTED",
    `Cannot use ${place} memory on the host device: all its memory is the machine's`,
  );
}

function importRefusal(byteLength: number, found: string): CudaIpcError {
  const attempt = `Cannot import ${byteLength} bytes of host memory`;
  return new CudaIpcError("INVALID_DESCRIPTOR", `${attempt}: ${found}`);
}

function usableMemory(memory: DriverMemory, verb: string): HostMemory {
  if (!(memory instanceof HostMemory))
    throw new TypeError(`Cannot ${verb} memory of another driver`);
  if (memory.fd.closed)
    throw new CudaIpcError("CLOSED", `Cannot ${verb} host memory: it was released`);
  return memory;
}

function usableReservation(reservation: DriverReservation, verb: string): HostReservation {
  if (!(reservation instanceof HostReservation))
    throw new TypeError(`Cannot ${verb} addresses of another driver`);
  if (!reservation.released) return reservation;
  throw new CudaIpcError("CLOSED", `Cannot ${verb} addresses of host: they were released`);
}

/** A read-only descriptor refuses a writable mapping with EACCES, a sealed file with EPERM. */
function mapFile<T>(byteLength: number, access: Access, map: () => T): T {
  try {
    return map();
  } catch (error) {
    if (access === "read" || !hasCode(error, "PERMISSION_DENIED")) throw error;
    const attempt = `Cannot map ${byteLength} bytes of host memory for writing`;
    const message = `${attempt}: the descriptor is for reading only`;
    throw new CudaIpcError("READ_ONLY", message, { cause: error });
  }
}
