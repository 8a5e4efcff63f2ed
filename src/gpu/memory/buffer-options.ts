/** Options for allocating, importing and closing buffers. */
import { aString, integer, oneOf, optionsOf } from "../../base/option-checks.js";
import type { MemoryPlace } from "../../driver/gpu-driver.js";
import type { Access } from "../../os/mapping.js";
import { aStream } from "../option-checks.js";
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

export const checkAllocate = optionsOf<AllocateOptions>("DeviceBuffer.allocate()", {
  label: aString,
  place: oneOf("device", "host-numa"),
  mechanism: oneOf("legacy"),
});

export interface ImportOptions {
  /** The name in error messages; "buffer" by default. */
  readonly label?: string | undefined;
  /** Bytes of the content. */
  readonly byteLength: number;
  /**
   * Bytes of the whole memory behind the descriptor; `byteLength` by default. On a GPU it must be
   * exactly the size that its creator allocated, because the driver maps memory only whole.
   */
  readonly allocationByteLength?: number | undefined;
  /** "read" by default. On a GPU nothing protects the memory: your kernels must not write to it. */
  readonly access?: Access | undefined;
  /** Which memory it is; "device" by default. */
  readonly place?: MemoryPlace | undefined;
}

export const checkImport = optionsOf<ImportOptions>(
  "DeviceBuffer.import()",
  {
    label: aString,
    byteLength: integer(0),
    allocationByteLength: integer(0),
    access: oneOf("read", "read-write"),
    place: oneOf("device", "host-numa"),
  },
  { needs: ["byteLength"], such: "{ byteLength: 4096 }" },
);

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

export const checkClose = optionsOf<CloseOptions>("close()", { stream: aStream });
