/** How buffers are made, imported and closed. */
import type { MemoryPlace } from "../driver/gpu-driver.js";
import type { Access } from "../os/mapping.js";
import type { Stream } from "./stream.js";

export interface AllocateOptions {
  /** The name in error messages; "buffer" by default. */
  readonly label?: string | undefined;
  /** "device" by default. Memory of "host-numa" lies in the machine beside the GPU, and the CPU can view it. */
  readonly place?: MemoryPlace | undefined;
  /**
   * How the memory can be shared; by file descriptor unless told otherwise. "legacy" is by a 64-byte handle alone, in blocks of
   * 2 MiB: see `IpcArrayHandle`. It ends with this buffer, also for those who opened it; on a GPU what they find then is undefined, and
   * closing it waits within the call until no stream of this process waits for anything (cuMemFree): release those first.
   */
  readonly mechanism?: "legacy" | undefined;
}

export interface ImportOptions {
  /** The name in error messages. */
  readonly label: string;
  readonly byteLength: number;
  readonly allocationByteLength: number;
  readonly access: Access;
  /** Where the memory lies; "device" by default. */
  readonly place?: MemoryPlace | undefined;
}

/** A buffer over memory that is mapped already. */
export interface BufferOptions {
  readonly label: string;
  readonly byteLength: number;
  readonly access: Access;
}

export interface CloseOptions {
  /** Memory of a pool goes back when this stream gets there, instead of the one that it was made with. */
  readonly stream?: Stream | undefined;
}
