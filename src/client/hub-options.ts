/** Options and results of a hub's methods. */
import type { DType } from "../array/dtype.js";
import type { WaitOptions } from "../base/deadline.js";
import type { FileFormat } from "../files/file-format.js";
import type { MemoryPool } from "../gpu/memory/memory-pool.js";
import type { Access } from "../os/mapping.js";
import type { Holder, Lifetime, ObjectSummary, Sharing } from "../wire/messages.js";
import type { PlaceOptions } from "./objects/placement.js";
import type { SharedArray } from "./objects/shared-array.js";
import type { SharedBundle } from "./objects/shared-bundle.js";

/**
 * Who may open an object beside its creator's user: other users, whom the hub must serve, and other
 * machines. Needs `with`, `machines`, or both.
 */
export interface SharingOptions {
  /**
   * `group`: members of the creator's group; `all`: every user whom the hub serves. Default:
   * `private`.
   */
  readonly with?: Sharing["with"] | undefined;
  /**
   * `read` (default) or `read-write`. The kernel enforces `read` for host memory. For GPU memory
   * and pools the openers have to keep to it (SECURITY.md).
   */
  readonly access?: Access | undefined;
  /**
   * True: the bridge of this machine announces it to other machines (docs/machines.md). The bridge
   * must be of a user who may open it.
   */
  readonly machines?: boolean | undefined;
}

export interface RemoveOptions extends WaitOptions {
  /** Remove only this object: its number in `list` or `inspect`. */
  readonly object?: number | undefined;
  /** Remove only an object that nobody has used since this time, from an entry of `list`. */
  readonly unheldSinceMs?: number | undefined;
}

export interface ReplaceOptions {
  /**
   * Takes the name over from an older object when the new one is published. The name is never free
   * in between, and holders of the older object keep it. With `true` the older object must be of
   * the same kind (array, bundle, channel or timeline), with `any` it need not.
   */
  readonly replace?: boolean | "any" | undefined;
}

export interface CreateOptions extends WaitOptions, ReplaceOptions {
  /** `host`, `cuda:N` or `auto`. Default: the device that `connect` was given. */
  readonly device?: string | undefined;
  /**
   * `held` (default): the object ends with its last holder. `pinned`: it stays until it is removed,
   * even if nobody holds it.
   */
  readonly lifetime?: Lifetime | undefined;
  /** Others who may open it. By default only this process's user (and root). */
  readonly sharing?: SharingOptions | undefined;
  /**
   * Allocates in this pool, which must be a shared one. The memory returns to the pool when you
   * close the array here. Close it after its readers: they would see what comes next.
   */
  readonly pool?: MemoryPool | undefined;
  /**
   * True: takes all of the memory before the object has its name, and fails with OUT_OF_MEMORY if
   * that is not there. By default host memory is taken page by page when a process first writes to
   * it; if none is left then, that process ends (SIGBUS or the OOM killer). Memory of a GPU is
   * always taken at once. Not with `pool`.
   */
  readonly preallocate?: boolean | undefined;
}

export interface OpenOptions extends PlaceOptions {
  /**
   * `read` (default) maps the memory for reading only. `copy` lets you write, and nobody else sees
   * it. Host memory is copied page by page, when you first write to a page; until then you see
   * later writes of others in it. GPU memory is copied: an array at once, an array of a bundle when
   * you first ask for it. Such a copy is memory of this process, and no quota of the hub counts it.
   */
  readonly access?: Access | "copy" | undefined;
  /**
   * Wait until the name is published, for `timeoutMs` (default 30 s). With false: NOT_FOUND at
   * once.
   */
  readonly wait?: boolean | undefined;
  /**
   * `here` (default): only what this machine's hub has. `any`: if it lacks the name, its bridge
   * fetches a copy from another machine, which all processes here then share. Without `timeoutMs`
   * the fetch may take as long as it makes progress.
   */
  readonly from?: "here" | "any" | undefined;
}

export interface OpenArrayOptions<D extends DType = DType> extends OpenOptions {
  /** The element type that the array must have. It gives the type of the result. */
  readonly dtype?: D | undefined;
}

export interface CreateBundleOptions extends CreateOptions {
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

export interface PutOptions<D extends DType = DType> extends CreateOptions {
  /**
   * The element type. Required for plain arrays, and for types that share a typed array, such as
   * float16 and uint16.
   */
  readonly dtype?: D | undefined;
  /** Elements along each axis, outermost first. Default: one axis. */
  readonly shape?: readonly number[] | undefined;
}

/** How much of a file has been read or written. */
export interface FileProgress {
  readonly doneBytes: number;
  readonly totalBytes: number;
}

interface FileOptions<F extends FileFormat> {
  /**
   * The file's format. By default its content decides, then its name. It gives the type of the
   * result.
   */
  readonly format?: F | undefined;
  /** Called at the start and after each piece. */
  readonly onProgress?: ((progress: FileProgress) => void) | undefined;
}

export interface LoadOptions<F extends FileFormat = FileFormat>
  extends CreateOptions,
    FileOptions<F> {
  /** Element type of raw bytes. Default: uint8. */
  readonly dtype?: DType | undefined;
  /** Shape of raw bytes. Default: one axis. */
  readonly shape?: readonly number[] | undefined;
  /**
   * Follows links of a folder wherever they lead, for stores that are made of links. Default:
   * false, which follows them inside the folder, and to the blobs of a Hugging Face cache.
   */
  readonly allowLinks?: boolean | undefined;
}

/** The result of `load`: a bundle for a safetensors file, an array for all others. */
export type Loaded<F extends FileFormat = FileFormat> = F extends "safetensors"
  ? SharedBundle
  : SharedArray;

export interface SaveOptions extends WaitOptions, FileOptions<FileFormat> {
  /** Saves only this array of a bundle. */
  readonly array?: string | undefined;
  /** Replace an existing file. A folder is never replaced. */
  readonly force?: boolean | undefined;
  /** True (default) if the file must survive a power cut once this resolves. */
  readonly durable?: boolean | undefined;
  /** Wait until the name is published, as `open` does (default). With false: NOT_FOUND at once. */
  readonly wait?: boolean | undefined;
  /**
   * Writes a bundle to a folder: safetensors files with at most this many bytes of elements each,
   * and their index. An array that is larger gets a file of its own.
   */
  readonly shardBytesMax?: number | undefined;
}

/** The outcome of `save`. */
export interface Saved {
  readonly content:
    | { readonly kind: "array"; readonly dtype: DType; readonly shape: readonly number[] }
    | { readonly kind: "bundle"; readonly arrayCount: number };
  /** Bytes of the elements, without headers. */
  readonly byteLength: number;
  readonly paths: readonly string[];
}

export interface Inspection {
  readonly object: ObjectSummary;
  readonly holders: readonly Holder[];
  /** The number of holders beyond those listed. */
  readonly holdersLeftOut: number;
}
