/**
 * Legacy memory of the CUDA driver: shared by a 64-byte handle alone.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
 *
 * Traps of the driver:
 * - A handle opens the whole block, and does not tell where in the block its address was.
 * - Memory that is freed and allocated again can get the same handle.
 * - cuMemFree blocks until every pending wait of this process has ended.
 */
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import { formatAddress } from "../common/address-table.js";
import { checkMemorySize } from "../common/argument-checks.js";
import {
  checkHandleLength,
  forgetExported,
  handleKey,
  refuseOwnHandle,
  rememberExported,
} from "../common/exported-handles.js";
import { IPC_HANDLE_BYTES } from "../event-calls.js";
import { LEGACY_GRANULARITY_BYTES, type LegacyCalls, type LegacyImport } from "../legacy-calls.js";
import type { DevicePointer } from "../memory-calls.js";
import type { CudaAddresses } from "./cuda-addresses.js";
import { importRefusal } from "./cuda-handles.js";
import type { CudaSession } from "./cuda-session.js";

interface Allocation {
  readonly ordinal: number;
  /** The key of its handle among the handles that this process exported. */
  exportedKey: string | undefined;
}

/** A block of another process. It is opened once per handle, and closed after its last import. */
interface ImportedBlock extends LegacyImport {
  readonly ordinal: number;
  readonly keys: string[];
  imports: number;
}

export function cudaLegacy(session: CudaSession, addresses: CudaAddresses): LegacyCalls {
  const imported = new Map<DevicePointer, ImportedBlock>();
  return {
    ...allocationCalls(session, addresses, imported),
    ...importCalls(session, addresses, imported),
  };
}

function allocationCalls(
  session: CudaSession,
  { memory: ranges }: CudaAddresses,
  imported: ReadonlyMap<DevicePointer, ImportedBlock>,
): Pick<LegacyCalls, "allocateLegacy" | "freeLegacy" | "exportLegacy"> {
  const allocated = new Map<DevicePointer, Allocation>();

  function free(cuda: Libcuda, ordinal: number, pointer: DevicePointer): void {
    const status = cuda.cuMemFree(pointer);
    session.checkReleased(status, "cuMemFree", `free memory of cuda:${ordinal}`);
  }

  return {
    allocateLegacy(ordinal, byteLength) {
      const cuda = session.enter(ordinal);
      checkMemorySize(byteLength, LEGACY_GRANULARITY_BYTES);
      const out = new BigUint64Array(1);
      const status = cuda.cuMemAlloc(out, byteLength);
      session.check(status, "cuMemAlloc", `allocate ${byteLength} bytes on cuda:${ordinal}`);
      const pointer = out[0] as bigint;
      return acquireIn((scope) => {
        scope.defer(() => free(cuda, ordinal, pointer));
        ranges.add({ start: pointer, byteLength, access: "read-write" });
        allocated.set(pointer, { ordinal, exportedKey: undefined });
        return pointer;
      });
    },

    freeLegacy(ordinal, pointer) {
      const cuda = session.enterToRelease(ordinal);
      const allocation = allocated.get(pointer);
      if (allocation?.ordinal !== ordinal) {
        const found = `nothing was allocated there on cuda:${ordinal}`;
        throw new RangeError(`Cannot free ${formatAddress(pointer)}: ${found}`);
      }
      allocated.delete(pointer);
      ranges.remove(pointer);
      if (allocation.exportedKey !== undefined) forgetExported(allocation.exportedKey);
      free(cuda, ordinal, pointer);
    },

    exportLegacy(ordinal, pointer) {
      const cuda = session.enter(ordinal);
      const attempt = `export ${formatAddress(pointer)} of cuda:${ordinal} by handle`;
      const holder = ranges.holding(pointer)?.start;
      if (holder !== undefined && imported.has(holder)) {
        throw new CudaIpcError(
          "UNSUPPORTED",
          `Cannot ${attempt}: it was imported; only its exporter can share it`,
        );
      }
      refuseIncapable(session, cuda, pointer, attempt);
      const { start, byteLength } = blockOf(session, cuda, pointer, attempt);
      const handle = new Uint8Array(IPC_HANDLE_BYTES);
      // WHY the start: the handle may depend on the address, and the block must have one handle.
      session.check(cuda.cuIpcGetMemHandle(handle, start), "cuIpcGetMemHandle", attempt);
      const allocation = allocated.get(start);
      if (allocation !== undefined && allocation.exportedKey === undefined) {
        allocation.exportedKey = handleKey(handle);
        rememberExported(allocation.exportedKey);
      }
      return { handle, blockByteLength: byteLength, byteOffset: Number(pointer - start) };
    },
  };
}

function importCalls(
  session: CudaSession,
  { memory: ranges }: CudaAddresses,
  imported: Map<DevicePointer, ImportedBlock>,
): Pick<LegacyCalls, "importLegacy" | "closeLegacy"> {
  /** By device and handle. WHY: drivers differ in how often one handle may be opened. */
  const importedByKey = new Map<number, Map<string, ImportedBlock>>();

  function closeOnce(cuda: Libcuda, ordinal: number, pointer: DevicePointer): void {
    const status = cuda.cuIpcCloseMemHandle(pointer);
    const attempt = `close imported memory of cuda:${ordinal}`;
    session.checkReleased(status, "cuIpcCloseMemHandle", attempt);
  }

  function newBlock(cuda: Libcuda, ordinal: number, pointer: DevicePointer): ImportedBlock {
    const attempt = `ask cuda:${ordinal} for the size of imported memory`;
    const { start, byteLength } = blockOf(session, cuda, pointer, attempt);
    const blockByteLength = byteLength - Number(pointer - start);
    // WHY read-write also for readers: the driver has no other mapping, and all imports share it.
    ranges.add({ start: pointer, byteLength: blockByteLength, access: "read-write" });
    const block = { ordinal, pointer, blockByteLength, keys: [], imports: 0 };
    imported.set(pointer, block);
    return block;
  }

  /** Records one more open handle of the block at this address. */
  function enlist(
    cuda: Libcuda,
    ordinal: number,
    pointer: DevicePointer,
    key: string,
  ): ImportedBlock {
    const block = imported.get(pointer) ?? newBlock(cuda, ordinal, pointer);
    block.keys.push(key);
    block.imports += 1;
    let byKey = importedByKey.get(ordinal);
    if (byKey === undefined) {
      byKey = new Map();
      importedByKey.set(ordinal, byKey);
    }
    byKey.set(key, block);
    return block;
  }

  return {
    importLegacy(ordinal, handle) {
      const cuda = session.enter(ordinal);
      const what = `memory on cuda:${ordinal}`;
      checkHandleLength(handle, what);
      const key = handleKey(handle);
      const known = importedByKey.get(ordinal)?.get(key);
      if (known !== undefined) {
        known.imports += 1;
        return known;
      }
      refuseOwnHandle(key, what);
      const out = new BigUint64Array(1);
      const flags = cuValue.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
      const status = cuda.cuIpcOpenMemHandle(out, { reserved: handle }, flags);
      if (status !== cuResult.CUDA_SUCCESS)
        throw importRefusal(session, { status, call: "cuIpcOpenMemHandle", handle, what });
      const pointer = out[0] as bigint;
      return acquireIn((scope) => {
        scope.defer(() => closeOnce(cuda, ordinal, pointer));
        return enlist(cuda, ordinal, pointer, key);
      });
    },

    closeLegacy(ordinal, pointer) {
      const cuda = session.enterToRelease(ordinal);
      const block = imported.get(pointer);
      if (block?.ordinal !== ordinal) {
        const found = `nothing was imported there on cuda:${ordinal}`;
        throw new RangeError(`Cannot close ${formatAddress(pointer)}: ${found}`);
      }
      block.imports -= 1;
      if (block.imports > 0) return;
      imported.delete(pointer);
      ranges.remove(pointer);
      for (const key of block.keys) importedByKey.get(ordinal)?.delete(key);
      releaseAll(block.keys.map(() => () => closeOnce(cuda, ordinal, pointer)));
    },
  };
}

function blockOf(
  session: CudaSession,
  cuda: Libcuda,
  pointer: DevicePointer,
  attempt: string,
): { start: bigint; byteLength: number } {
  const start = new BigUint64Array(1);
  const byteLength = new BigUint64Array(1);
  const status = cuda.cuMemGetAddressRange(start, byteLength, pointer);
  session.check(status, "cuMemGetAddressRange", attempt);
  return { start: start[0] as bigint, byteLength: Number(byteLength[0]) };
}

function refuseIncapable(
  session: CudaSession,
  cuda: Libcuda,
  pointer: DevicePointer,
  attempt: string,
): void {
  const capable = new Uint32Array(1);
  const attribute = cuValue.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
  const status = cuda.cuPointerGetAttribute(capable, attribute, pointer);
  if (status === cuResult.CUDA_ERROR_INVALID_VALUE)
    throw new RangeError(`Cannot ${attempt}: the driver knows of no memory there`);
  session.check(status, "cuPointerGetAttribute", attempt);
  if (capable[0] !== 0) return;
  const found =
    "the driver says that this memory has no handle " +
    "(virtual memory, a pool, managed or host memory), wanted memory of the legacy mechanism";
  throw new CudaIpcError("UNSUPPORTED", `Cannot ${attempt}: ${found}`);
}
