/**
 * Legacy memory of the host device, shared by a 64-byte handle alone. It is a sealed memory file
 * that importers open through the exporter's table of descriptors. Unlike on a GPU, an import stays
 * valid after the exporter frees the memory or ends.
 */
import { CudaIpcError } from "../../base/errors.js";
import { nextGeneration } from "../../base/generation.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { createExporterFile, openExporterFile } from "../../os/exporter-file.js";
import type { Access } from "../../os/mapping.js";
import { Mapping } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { ownIdentity } from "../../os/process-identity.js";
import { keepIfSparse } from "../../os/spared-holes.js";
import { type AddressRange, AddressTable, formatAddress } from "../common/address-table.js";
import { checkMemorySize } from "../common/argument-checks.js";
import { checkHandleLength, handleKey } from "../common/exported-handles.js";
import { LEGACY_GRANULARITY_BYTES, type LegacyCalls, type LegacyImport } from "../legacy-calls.js";
import type { DevicePointer } from "../memory-calls.js";
import type { HostAddresses } from "./host-addresses.js";
import { refuseOverCapacity } from "./host-capacity.js";
import { decodeHostHandle, encodeHostHandle } from "./host-handle.js";
import type { HostSession } from "./host-session.js";

interface Block extends AddressRange {
  /** Open while the memory lives, because importers open it by its number. */
  readonly fd: OwnedFd;
  readonly fileNumber: number;
}

interface ImportedBlock extends LegacyImport {
  readonly access: Access;
  readonly key: string;
  imports: number;
}

export function hostLegacy(session: HostSession, addresses: HostAddresses): LegacyCalls {
  return { ...allocationCalls(session, addresses), ...importCalls(session, addresses) };
}

function allocationCalls(
  session: HostSession,
  addresses: HostAddresses,
): Pick<LegacyCalls, "allocateLegacy" | "freeLegacy" | "exportLegacy"> {
  const blocks = new AddressTable<Block>("Memory with a handle");
  return {
    allocateLegacy(ordinal, byteLength) {
      session.use(ordinal);
      checkMemorySize(byteLength, LEGACY_GRANULARITY_BYTES);
      refuseOverCapacity(byteLength);
      return acquireIn((scope) => {
        const fileNumber = nextGeneration();
        const created = createExporterFile("memory", fileNumber, byteLength);
        const fd = scope.own(created, (it) => it.close());
        const start = scope.own(mapFile(addresses, fd, byteLength, "read-write"), (it) =>
          addresses.unmap(it),
        );
        blocks.add({ start, byteLength, access: "read-write", fd, fileNumber });
        return start;
      });
    },

    freeLegacy(ordinal, pointer) {
      session.use(ordinal);
      const block = blocks.remove(pointer);
      if (block === undefined)
        throw new RangeError(`Cannot free ${formatAddress(pointer)}: nothing was allocated there`);
      releaseAll([() => addresses.unmap(pointer), () => block.fd.close()]);
    },

    exportLegacy(ordinal, pointer) {
      session.use(ordinal);
      const block = blocks.holding(pointer);
      if (block === undefined) {
        addresses.check(pointer, 1, "read");
        const found = "it was not allocated with one";
        throw new CudaIpcError(
          "UNSUPPORTED",
          `Cannot export ${formatAddress(pointer)} by handle: ${found}`,
        );
      }
      const { fd, fileNumber, byteLength } = block;
      const handle = encodeHostHandle({
        kind: "memory",
        fd: fd.number,
        fileNumber,
        byteLength,
        ...ownIdentity(),
        slot: 0,
        generation: 0,
      });
      return { handle, blockByteLength: byteLength, byteOffset: Number(pointer - block.start) };
    },
  };
}

function importCalls(
  session: HostSession,
  addresses: HostAddresses,
): Pick<LegacyCalls, "importLegacy" | "closeLegacy"> {
  const imported = new Map<DevicePointer, ImportedBlock>();
  /** By access and then by handle. */
  const importedByKey: Record<Access, Map<string, ImportedBlock>> = {
    read: new Map(),
    "read-write": new Map(),
  };
  return {
    importLegacy(ordinal, handle, access) {
      session.use(ordinal);
      const what = "memory of the host device";
      checkHandleLength(handle, what);
      const key = handleKey(handle);
      const known = importedByKey[access].get(key);
      if (known !== undefined) {
        known.imports += 1;
        return known;
      }
      const decoded = decodeHostHandle(handle, "memory");
      if (decoded === undefined || decoded.byteLength === 0) {
        throw new CudaIpcError(
          "INVALID_HANDLE",
          `Cannot import ${what}: these 64 bytes are no handle of such memory`,
        );
      }
      const fd = openExporterFile(decoded, access, what);
      try {
        const pointer = mapFile(addresses, fd, decoded.byteLength, access);
        const block = { pointer, blockByteLength: decoded.byteLength, access, key, imports: 1 };
        imported.set(pointer, block);
        importedByKey[access].set(key, block);
        return block;
      } finally {
        fd.close();
      }
    },

    closeLegacy(ordinal, pointer) {
      session.use(ordinal);
      const block = imported.get(pointer);
      if (block === undefined)
        throw new RangeError(`Cannot close ${formatAddress(pointer)}: nothing was imported there`);
      block.imports -= 1;
      if (block.imports > 0) return;
      imported.delete(pointer);
      importedByKey[block.access].delete(block.key);
      addresses.unmap(pointer);
    },
  };
}

function mapFile(
  addresses: HostAddresses,
  fd: OwnedFd,
  byteLength: number,
  access: Access,
): DevicePointer {
  return acquireIn((scope) => {
    const mapping = scope.own(Mapping.shared(fd, byteLength, access), (it) => it.close());
    keepIfSparse(mapping, fd);
    return addresses.addMapping(mapping, access);
  });
}
