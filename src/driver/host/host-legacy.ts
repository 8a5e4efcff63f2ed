/**
 * The host device's memory that is shared by a 64-byte handle alone: a sealed memory file that importers open through the exporter's
 * table of descriptors. Unlike on a GPU, what was imported stays valid when the exporter frees it or ends.
 */
import { CudaIpcError } from "../../base/errors.js";
import { nextGeneration } from "../../base/generation.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { createExporterFile, openExporterFile } from "../../os/exporter-file.js";
import type { Access } from "../../os/mapping.js";
import { Mapping } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { ownIdentity } from "../../os/process-identity.js";
import { type AddressRange, AddressTable, formatAddress } from "../address-table.js";
import { checkHandleLength, handleKey } from "../exported-handles.js";
import type { DevicePointer } from "../gpu-driver.js";
import { LEGACY_GRANULARITY_BYTES, type LegacyCalls, type LegacyExport, type LegacyImport } from "../legacy-calls.js";
import { checkMemorySize } from "../operation-checks.js";
import { refuseOverCapacity } from "./host-capacity.js";
import type { HostParts } from "./host-driver.js";
import { decodeHostHandle, encodeHostHandle } from "./host-handle.js";
import type { HostMemories } from "./host-memory.js";

interface Block extends AddressRange {
  /** Open for as long as the memory is there: importers open it by its number. */
  readonly fd: OwnedFd;
  readonly fileNumber: number;
}

interface ImportedBlock extends LegacyImport {
  readonly access: Access;
  readonly key: string;
  users: number;
}

export function createHostLegacy({ session, memories }: HostParts): LegacyCalls {
  const legacy = new HostLegacy(memories);
  return {
    allocateLegacy(ordinal, byteLength) {
      session.use(ordinal);
      return legacy.allocate(byteLength);
    },
    freeLegacy(ordinal, pointer) {
      session.use(ordinal);
      legacy.free(pointer);
    },
    exportLegacy(ordinal, pointer) {
      session.use(ordinal);
      return legacy.export(pointer);
    },
    importLegacy(ordinal, handle, access) {
      session.use(ordinal);
      return legacy.import(handle, access);
    },
    closeLegacy(ordinal, pointer) {
      session.use(ordinal);
      legacy.close(pointer);
    },
  };
}

class HostLegacy {
  readonly #memories: HostMemories;
  readonly #blocks = new AddressTable<Block>("Memory with a handle");
  readonly #imported = new Map<DevicePointer, ImportedBlock>();
  /** By access and then by handle. */
  readonly #importedByKey: Record<Access, Map<string, ImportedBlock>> = { read: new Map(), "read-write": new Map() };

  constructor(memories: HostMemories) {
    this.#memories = memories;
  }

  allocate(byteLength: number): DevicePointer {
    checkMemorySize(byteLength, LEGACY_GRANULARITY_BYTES);
    refuseOverCapacity(byteLength);
    return acquireIn((scope) => {
      const fileNumber = nextGeneration();
      const fd = scope.own(createExporterFile("memory", fileNumber, byteLength), (it) => it.close());
      const start = scope.own(this.#map(fd, byteLength, "read-write"), (it) => this.#memories.unmap(it));
      this.#blocks.add({ start, byteLength, access: "read-write", fd, fileNumber });
      return start;
    });
  }

  free(pointer: DevicePointer): void {
    const block = this.#blocks.remove(pointer);
    if (block === undefined) throw new RangeError(`Cannot free ${formatAddress(pointer)}: nothing was allocated there`);
    releaseAll([() => this.#memories.unmap(pointer), () => block.fd.close()]);
  }

  export(pointer: DevicePointer): LegacyExport {
    const block = this.#blocks.holding(pointer);
    if (block === undefined) {
      this.#memories.check(pointer, 1, "read");
      const found = "it was not allocated with one";
      throw new CudaIpcError("UNSUPPORTED", `Cannot export ${formatAddress(pointer)} by handle: ${found}`);
    }
    const { fd, fileNumber, byteLength } = block;
    const place = { fd: fd.number, fileNumber, byteLength };
    const handle = encodeHostHandle({ kind: "memory", ...place, ...ownIdentity(), slot: 0, generation: 0 });
    return { handle, blockByteLength: byteLength, byteOffset: Number(pointer - block.start) };
  }

  import(handle: Uint8Array, access: Access): LegacyImport {
    const what = "memory of the host device";
    checkHandleLength(handle, what);
    const key = handleKey(handle);
    const known = this.#importedByKey[access].get(key);
    if (known !== undefined) {
      known.users += 1;
      return known;
    }
    const decoded = decodeHostHandle(handle, "memory");
    if (decoded === undefined || decoded.byteLength === 0) {
      throw new CudaIpcError("INVALID_HANDLE", `Cannot import ${what}: these 64 bytes are no handle of such memory`);
    }
    const fd = openExporterFile(decoded, access, what);
    try {
      const pointer = this.#map(fd, decoded.byteLength, access);
      const block = { pointer, blockByteLength: decoded.byteLength, access, key, users: 1 };
      this.#imported.set(pointer, block);
      this.#importedByKey[access].set(key, block);
      return block;
    } finally {
      fd.close();
    }
  }

  close(pointer: DevicePointer): void {
    const block = this.#imported.get(pointer);
    if (block === undefined) throw new RangeError(`Cannot close ${formatAddress(pointer)}: nothing was imported there`);
    block.users -= 1;
    if (block.users > 0) return;
    this.#imported.delete(pointer);
    this.#importedByKey[block.access].delete(block.key);
    this.#memories.unmap(pointer);
  }

  #map(fd: OwnedFd, byteLength: number, access: Access): DevicePointer {
    return acquireIn((scope) => {
      const mapping = scope.own(Mapping.shared(fd, byteLength, access), (it) => it.close());
      return this.#memories.add(mapping, access);
    });
  }
}
