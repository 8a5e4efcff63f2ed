/**
 * The seam's part on memory that is shared by a 64-byte handle alone (the legacy mechanism of CUDA IPC).
 * It lives with the process that allocated it: what importers find after that process ended or freed it is undefined.
 */
import type { Access } from "../os/mapping.js";
import type { DevicePointer } from "./gpu-driver.js";

/**
 * Sizes of memory that is shared by handle are multiples of this, so that no other allocation lies in the same block and is shared
 * with it: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#interprocess-communication
 */
export const LEGACY_GRANULARITY_BYTES = 2 * 1024 * 1024;

/** What travels of an address: the handle opens the whole block in which it lies. */
export interface LegacyExport {
  /** IPC_HANDLE_BYTES bytes. */
  readonly handle: Uint8Array;
  readonly blockByteLength: number;
  /** Of the address that was exported, from the start of the block. */
  readonly byteOffset: number;
}

export interface LegacyImport {
  /** The start of the block in this process. */
  readonly pointer: DevicePointer;
  readonly blockByteLength: number;
}

export interface LegacyCalls {
  /**
   * Memory that can be exported by handle. Its content is zero on `host` and undefined on `cuda`.
   * @param byteLength a multiple of LEGACY_GRANULARITY_BYTES
   * @throws OUT_OF_MEMORY, UNSUPPORTED
   */
  allocateLegacy(ordinal: number, byteLength: number): DevicePointer;
  /** On `cuda` this waits for pending work of the whole process. Importers have closed it, and no stream waits for a word. */
  freeLegacy(ordinal: number, pointer: DevicePointer): void;
  /**
   * The handle of the block that holds the address, which need not be the start of it.
   * @throws UNSUPPORTED for memory that has no such handle (virtual memory, pools, imported memory), RangeError where there is none
   */
  exportLegacy(ordinal: number, pointer: DevicePointer): LegacyExport;
  /**
   * Maps the block of a handle of another process. Each import is ended by its own `closeLegacy`; imports of one handle with one access
   * give one address. `host` maps for `access`; on `cuda` the memory can always be written, and who asked to read has to keep to it.
   * On `cuda` the handle of memory that was freed opens what its exporter has in that place since, without an error (measured): who
   * needs to know has to be told by the exporter.
   * @throws OWN_HANDLE for a handle of this process, INVALID_HANDLE for what is none, of a process that ended, or freed; STALE_HANDLE
   * for the last two where the driver can tell
   */
  importLegacy(ordinal: number, handle: Uint8Array, access: Access): LegacyImport;
  /** Ends one import. The caller has seen to it that no stream still uses it. */
  closeLegacy(ordinal: number, pointer: DevicePointer): void;
}
