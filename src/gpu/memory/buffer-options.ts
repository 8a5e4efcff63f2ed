/** Options for allocating, importing and closing buffers. */
import type { MemoryPlace } from "../../driver/gpu-driver.js";
import type { Access } from "../../os/mapping.js";
import type { Stream } from "../order/stream.js";

export interface AllocateOptions {
  /** The name in error messages; "buffer" by default. */
  readonly label?: string | undefined;
  /**
   * "device" by default. "host-numa" is host memory of the NUMA node nearest to the GPU; the CPU
   * can view it.
   */
  readonly place?: MemoryPlace | undefined;
  /**
   * How the memory is shared: by file descriptor by default. "legacy" memory is shared only by a
   * 64-byte handle, in blocks of 2 MiB; see `IpcArrayHandle`. Closing this buffer frees it for the
   * processes that opened it, too. On a GPU, what they then read is undefined.
   *
   * On a GPU, `close()` of such a buffer does not return (cuMemFree) while a stream of this process
   * waits for anything. Release waiting streams first.
   */
  readonly mechanism?: "legacy" | undefined;
}

export interface ImportOptions {
  /** The name in error messages. */
  readonly label: string;
  readonly byteLength: number;
  readonly allocationByteLength: number;
  readonly access: Access;
  /** Which memory it is; "device" by default. */
  readonly place?: MemoryPlace | undefined;
}

/** Options for a buffer over memory that is already mapped. */
export interface BufferOptions {
  readonly label: string;
  readonly byteLength: number;
  readonly access: Access;
}

export interface CloseOptions {
  /** Frees memory of a pool in the order of this stream, not of the stream it was allocated on. */
  readonly stream?: Stream | undefined;
}
