/**
 * The seam's part on memory that is shared by a 64-byte handle alone (the legacy mechanism of CUDA IPC).
 * It lives with the process that allocated it: what importers find after that process ended or freed it is undefined.
 */
import type { DevicePointer } from "./gpu-driver.js";

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
   * Memory that can be exported by handle. A multiple of 2 MiB, so that no other allocation lies in the same block and is shared with it.
   * @throws OUT_OF_MEMORY, UNSUPPORTED
   */
  allocateLegacy(ordinal: number, byteLength: number): DevicePointer;
  /** On `cuda` this waits for pending work of the whole process. Importers have closed it, and no stream waits for a word. */
  freeLegacy(ordinal: number, pointer: DevicePointer): void;
  /**
   * The handle of the block that holds the address, which need not be the start of it.
   * @throws UNSUPPORTED for memory that has no such handle (virtual memory, pools, imported memory)
   */
  exportLegacy(ordinal: number, pointer: DevicePointer): LegacyExport;
  /**
   * Maps the block of a handle of another process. Each import is ended by its own `closeLegacy`; imports of one handle may give one address.
   * @throws OWN_HANDLE for a handle of this process, INVALID_HANDLE for what is none, of a process that ended, or freed
   */
  importLegacy(ordinal: number, handle: Uint8Array): LegacyImport;
  /** Ends one import. The caller has seen to it that no stream still uses it. */
  closeLegacy(ordinal: number, pointer: DevicePointer): void;
}
