/**
 * Memory that is shared by a 64-byte handle alone.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
 *
 * Traps of the driver:
 * - A handle opens the whole block. The handle of an address within it does not say where in the block that is.
 * - Memory that is freed and allocated again can get a handle of the same bytes.
 * - cuMemFree blocks until every wait that is pending in this process has ended.
 */
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import { formatAddress } from "../address-table.js";
import { IPC_HANDLE_BYTES } from "../event-calls.js";
import {
  checkHandleLength,
  forgetExported,
  handleKey,
  refuseOwnHandle,
  rememberExported,
} from "../exported-handles.js";
import type { DevicePointer } from "../gpu-driver.js";
import { LEGACY_GRANULARITY_BYTES, type LegacyCalls, type LegacyExport, type LegacyImport } from "../legacy-calls.js";
import { checkMemorySize } from "../operation-checks.js";
import type { CudaParts } from "./cuda-driver.js";
import { importRefusal } from "./cuda-handles.js";
import type { CudaMappings } from "./cuda-mapping.js";
import type { CudaSession } from "./cuda-session.js";

interface Allocation {
  readonly ordinal: number;
  /** Under which its handle is remembered as this process's own. */
  exportedKey: string | undefined;
}

/** A block of another process: opened once for each handle that names it, closed after the last of those who imported it. */
interface ImportedBlock extends LegacyImport {
  readonly ordinal: number;
  readonly keys: string[];
  users: number;
}

export function createCudaLegacy({ session, mappings }: CudaParts): LegacyCalls {
  const legacy = new CudaLegacy(session, mappings);
  return {
    allocateLegacy: (ordinal, byteLength) => legacy.allocate(ordinal, byteLength),
    freeLegacy: (ordinal, pointer) => legacy.free(ordinal, pointer),
    exportLegacy: (ordinal, pointer) => legacy.export(ordinal, pointer),
    importLegacy: (ordinal, handle) => legacy.import(ordinal, handle),
    closeLegacy: (ordinal, pointer) => legacy.close(ordinal, pointer),
  };
}

class CudaLegacy {
  readonly #session: CudaSession;
  readonly #mappings: CudaMappings;
  readonly #allocated = new Map<DevicePointer, Allocation>();
  /** By device and handle. WHY a table of ours: drivers differ in how often one handle may be opened, and asking takes longer. */
  readonly #importedByKey = new Map<number, Map<string, ImportedBlock>>();
  readonly #imported = new Map<DevicePointer, ImportedBlock>();

  constructor(session: CudaSession, mappings: CudaMappings) {
    this.#session = session;
    this.#mappings = mappings;
  }

  allocate(ordinal: number, byteLength: number): DevicePointer {
    const cuda = this.#session.enter(ordinal);
    checkMemorySize(byteLength, LEGACY_GRANULARITY_BYTES);
    const out = new BigUint64Array(1);
    const status = cuda.cuMemAlloc(out, byteLength);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemAlloc", `allocate ${byteLength} bytes on cuda:${ordinal}`);
    }
    const pointer = out[0] as bigint;
    return acquireIn((scope) => {
      scope.defer(() => this.#free(cuda, ordinal, pointer));
      this.#mappings.addRange({ start: pointer, byteLength, access: "read-write" });
      this.#allocated.set(pointer, { ordinal, exportedKey: undefined });
      return pointer;
    });
  }

  free(ordinal: number, pointer: DevicePointer): void {
    const cuda = this.#session.enterToRelease(ordinal);
    const allocation = this.#allocated.get(pointer);
    if (allocation?.ordinal !== ordinal) {
      throw new RangeError(`Cannot free ${formatAddress(pointer)}: nothing was allocated there on cuda:${ordinal}`);
    }
    this.#allocated.delete(pointer);
    this.#mappings.removeRange(pointer);
    if (allocation.exportedKey !== undefined) forgetExported(allocation.exportedKey);
    this.#free(cuda, ordinal, pointer);
  }

  export(ordinal: number, pointer: DevicePointer): LegacyExport {
    const cuda = this.#session.enter(ordinal);
    const attempt = `export ${formatAddress(pointer)} of cuda:${ordinal} by handle`;
    this.#refuseIncapable(cuda, pointer, attempt);
    const block = this.#blockOf(cuda, pointer, attempt);
    const handle = new Uint8Array(IPC_HANDLE_BYTES);
    // WHY the base: the bytes of a handle may depend on the address that was asked for, and only the base has one handle for all.
    const status = cuda.cuIpcGetMemHandle(handle, block.start);
    if (status !== cuResult.CUDA_SUCCESS) throw this.#session.failure(status, "cuIpcGetMemHandle", attempt);
    const allocation = this.#allocated.get(block.start);
    if (allocation !== undefined && allocation.exportedKey === undefined) {
      allocation.exportedKey = handleKey(handle);
      rememberExported(allocation.exportedKey);
    }
    return { handle, blockByteLength: block.byteLength, byteOffset: Number(pointer - block.start) };
  }

  import(ordinal: number, handle: Uint8Array): LegacyImport {
    const cuda = this.#session.enter(ordinal);
    const what = `memory on cuda:${ordinal}`;
    checkHandleLength(handle, what);
    const key = handleKey(handle);
    const known = this.#importedByKey.get(ordinal)?.get(key);
    if (known !== undefined) {
      known.users += 1;
      return known;
    }
    refuseOwnHandle(key, what);
    const out = new BigUint64Array(1);
    const status = cuda.cuIpcOpenMemHandle(out, { reserved: handle }, cuValue.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw importRefusal(this.#session, { status, call: "cuIpcOpenMemHandle", handle, what });
    }
    const pointer = out[0] as bigint;
    return acquireIn((scope) => {
      scope.defer(() => this.#closeOnce(cuda, ordinal, pointer));
      return this.#enlist(cuda, ordinal, pointer, key);
    });
  }

  close(ordinal: number, pointer: DevicePointer): void {
    const cuda = this.#session.enterToRelease(ordinal);
    const block = this.#imported.get(pointer);
    if (block?.ordinal !== ordinal) {
      throw new RangeError(`Cannot close ${formatAddress(pointer)}: nothing was imported there on cuda:${ordinal}`);
    }
    block.users -= 1;
    if (block.users > 0) return;
    this.#imported.delete(pointer);
    this.#mappings.removeRange(pointer);
    for (const key of block.keys) this.#importedByKey.get(ordinal)?.delete(key);
    releaseAll(block.keys.map(() => () => this.#closeOnce(cuda, ordinal, pointer)));
  }

  #enlist(cuda: Libcuda, ordinal: number, pointer: DevicePointer, key: string): ImportedBlock {
    const known = this.#imported.get(pointer);
    const block = known ?? this.#newBlock(cuda, ordinal, pointer);
    block.keys.push(key);
    block.users += 1;
    let byKey = this.#importedByKey.get(ordinal);
    if (byKey === undefined) {
      byKey = new Map();
      this.#importedByKey.set(ordinal, byKey);
    }
    byKey.set(key, block);
    return block;
  }

  #newBlock(cuda: Libcuda, ordinal: number, pointer: DevicePointer): ImportedBlock {
    const { start, byteLength } = this.#blockOf(cuda, pointer, `ask cuda:${ordinal} for the size of imported memory`);
    const blockByteLength = byteLength - Number(pointer - start);
    // WHY read-write also for readers: the driver knows no other mapping, and all imports of a block share it.
    this.#mappings.addRange({ start: pointer, byteLength: blockByteLength, access: "read-write" });
    const block = { ordinal, pointer, blockByteLength, keys: [], users: 0 };
    this.#imported.set(pointer, block);
    return block;
  }

  #refuseIncapable(cuda: Libcuda, pointer: DevicePointer, attempt: string): void {
    const start = this.#mappings.holding(pointer)?.start;
    if (start !== undefined && this.#imported.has(start)) {
      throw new CudaIpcError("UNSUPPORTED", `Cannot ${attempt}: it was imported; only its exporter can share it`);
    }
    const capable = new Uint32Array(1);
    const attribute = cuValue.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
    const status = cuda.cuPointerGetAttribute(capable, attribute, pointer);
    if (status === cuResult.CUDA_ERROR_INVALID_VALUE) {
      throw new RangeError(`Cannot ${attempt}: the driver knows of no memory there`);
    }
    if (status !== cuResult.CUDA_SUCCESS) throw this.#session.failure(status, "cuPointerGetAttribute", attempt);
    if (capable[0] !== 0) return;
    const found = "the driver says that this memory has no handle (virtual memory, a pool, managed or host memory)";
    throw new CudaIpcError("UNSUPPORTED", `Cannot ${attempt}: ${found}, wanted memory of the legacy mechanism`);
  }

  #blockOf(cuda: Libcuda, pointer: DevicePointer, attempt: string): { start: bigint; byteLength: number } {
    const start = new BigUint64Array(1);
    const byteLength = new BigUint64Array(1);
    const status = cuda.cuMemGetAddressRange(start, byteLength, pointer);
    if (status !== cuResult.CUDA_SUCCESS) throw this.#session.failure(status, "cuMemGetAddressRange", attempt);
    return { start: start[0] as bigint, byteLength: Number(byteLength[0]) };
  }

  #free(cuda: Libcuda, ordinal: number, pointer: DevicePointer): void {
    const status = cuda.cuMemFree(pointer);
    this.#session.checkReleased(status, "cuMemFree", `free memory of cuda:${ordinal}`);
  }

  #closeOnce(cuda: Libcuda, ordinal: number, pointer: DevicePointer): void {
    const status = cuda.cuIpcCloseMemHandle(pointer);
    this.#session.checkReleased(status, "cuIpcCloseMemHandle", `close imported memory of cuda:${ordinal}`);
  }
}
