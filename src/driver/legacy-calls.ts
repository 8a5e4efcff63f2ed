/**
 * The legacy calls of the seam: memory shared by a 64-byte handle alone, as CUDA IPC does.
 * The memory lives with the process that allocated it. After that process frees it or ends, the
 * content that importers see is undefined.
 */
import type { Access } from "../os/mapping.js";
import type { DevicePointer } from "./memory-calls.js";

/**
 * Sizes of legacy memory are multiples of this. Otherwise another allocation could lie in the same
 * block and be shared with it:
 * https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#interprocess-communication
 */
export const LEGACY_GRANULARITY_BYTES = 2 * 1024 * 1024;

/** Leads another process to an address. The handle opens the whole block around it. */
export interface LegacyExport {
  /** IPC_HANDLE_BYTES bytes. */
  readonly handle: Uint8Array;
  readonly blockByteLength: number;
  /** From the start of the block to the exported address. */
  readonly byteOffset: number;
}

export interface LegacyImport {
  /** The start of the block in this process. */
  readonly pointer: DevicePointer;
  readonly blockByteLength: number;
}

export interface LegacyCalls {
  /**
   * Allocates memory that can be exported by handle. `host` zeroes it, `cuda` leaves it undefined.
   * @param byteLength a multiple of LEGACY_GRANULARITY_BYTES
   * @throws OUT_OF_MEMORY, UNSUPPORTED
   */
  allocateLegacy(ordinal: number, byteLength: number): DevicePointer;
  /**
   * Frees memory. On `cuda` this blocks until pending work of the whole process is done. Before the
   * call, all importers must have closed the memory and no stream may wait for a word.
   */
  freeLegacy(ordinal: number, pointer: DevicePointer): void;
  /**
   * Returns the handle of the block around an address, which need not be the start of the block.
   * @throws UNSUPPORTED for memory without such a handle (virtual memory, pools, imported memory),
   * RangeError if there is no memory
   */
  exportLegacy(ordinal: number, pointer: DevicePointer): LegacyExport;
  /**
   * Maps the block of another process's handle. Each import needs its own `closeLegacy`. Imports of
   * one handle with one access give the same address. `host` maps for `access`. `cuda` always maps
   * for writing, so a caller that asked to read must not write. If the exporter freed the memory,
   * `cuda` opens whatever lies there now, without an error (measured). Only the exporter can tell.
   * @throws OWN_HANDLE for a handle of this process; INVALID_HANDLE if it is no handle, its process
   * ended, or the memory was freed; STALE_HANDLE for the last two if the driver can tell
   */
  importLegacy(ordinal: number, handle: Uint8Array, access: Access): LegacyImport;
  /** Ends one import. The caller makes sure that no stream still uses it. */
  closeLegacy(ordinal: number, pointer: DevicePointer): void;
}
