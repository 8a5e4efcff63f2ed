/** What the functions of a hub take and give. */
import type { DType } from "../array/dtype.js";
import type { WaitOptions } from "../base/deadline.js";
import type { FileFormat } from "../files/file-format.js";
import type { MemoryPool } from "../gpu/memory-pool.js";
import type { Access } from "../os/mapping.js";
import type { Holder, Lifetime, ObjectSummary, Sharing } from "../wire/messages.js";
import type { PlaceOptions } from "./placement.js";
import type { SharedArray } from "./shared-array.js";
import type { SharedBundle } from "./shared-bundle.js";

/** Whom an object is shared with beside its creator's user. The hub must be one that serves those others. */
export interface SharingOptions {
  /** `group`: members of the creator's group; `all`: everybody whom the hub serves. */
  readonly with: Sharing["with"];
  /**
   * `read` (default) or `read-write`. For host memory the kernel holds readers to it; for GPU memory and memory of pools it is a promise of
   * those who open it (SECURITY.md).
   */
  readonly access?: Access | undefined;
}

export interface CreateOptions extends WaitOptions {
  /** `host`, `cuda:N` or `auto`; default what `connect` was given. */
  readonly device?: string | undefined;
  /**
   * `held` (default): the object ends with its last holder. `pinned`: it stays until it is removed, also when nobody holds it.
   */
  readonly lifetime?: Lifetime | undefined;
  /** Other users who may open it; by default nobody beside this process's own user (and root). */
  readonly sharing?: SharingOptions | undefined;
  /**
   * Allocate in this pool, which was created to be shared, instead of by itself. The memory goes back to the pool when the array is closed
   * here: close it after those who opened it, who would find there what comes next.
   */
  readonly pool?: MemoryPool | undefined;
}

export interface OpenOptions extends PlaceOptions {
  /** `read` (default) maps for reading only. */
  readonly access?: Access | undefined;
  /** Wait until the name is published, as long as `timeoutMs` says (default 30 s); false fails at once with NOT_FOUND. */
  readonly wait?: boolean | undefined;
}

export interface OpenArrayOptions<D extends DType = DType> extends OpenOptions {
  /** The element type that the array must have; the result is typed by it. */
  readonly dtype?: D | undefined;
}

export interface CreateBundleOptions extends CreateOptions {
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

export interface ReplaceOptions {
  /**
   * Take the place of an older object of this name once the new memory is filled. Between the two
   * the name is free for a moment, in which an `open` waits.
   */
  readonly replace?: boolean | undefined;
}

export interface PutOptions<D extends DType = DType> extends CreateOptions, ReplaceOptions {
  /**
   * The element type; needed for plain arrays, and for types that share a typed array, as float16
   * and uint16 do.
   */
  readonly dtype?: D | undefined;
  /** Elements along each axis, outermost first; one axis by default. */
  readonly shape?: readonly number[] | undefined;
}

/** How far a file has been read or written. */
export interface FileProgress {
  readonly doneBytes: number;
  readonly totalBytes: number;
}

interface FileOptions<F extends FileFormat> {
  /**
   * The file's format. By default its content decides, then its name. The result of `load` is typed
   * by it.
   */
  readonly format?: F | undefined;
  /** Called at the start and after each piece. */
  readonly onProgress?: ((progress: FileProgress) => void) | undefined;
}

export interface LoadOptions<F extends FileFormat = FileFormat> extends CreateOptions, ReplaceOptions, FileOptions<F> {
  /** Element type of raw bytes; uint8 by default. */
  readonly dtype?: DType | undefined;
  /** Shape of raw bytes; one axis by default. */
  readonly shape?: readonly number[] | undefined;
}

/** What `load` makes of a file: a bundle of a safetensors file, an array of all others. */
export type Loaded<F extends FileFormat = FileFormat> = F extends "safetensors" ? SharedBundle : SharedArray;

export interface SaveOptions extends WaitOptions, FileOptions<FileFormat> {
  /** Only this array of a bundle. */
  readonly array?: string | undefined;
  /** Replace a file that is there already. A folder is never replaced. */
  readonly force?: boolean | undefined;
  /** Whether the file survives a power cut once this resolves; true by default. */
  readonly durable?: boolean | undefined;
  /**
   * Wait until the name is published, as `open` does (default); false fails at once with NOT_FOUND.
   */
  readonly wait?: boolean | undefined;
  /**
   * Write a bundle to a folder: safetensors files with at most so many bytes of elements each, and
   * their index. An array that is larger by itself gets a file of its own.
   */
  readonly shardBytesMax?: number | undefined;
}

/** What was written by `save`. */
export interface Saved {
  readonly content:
    | { readonly kind: "array"; readonly dtype: DType; readonly shape: readonly number[] }
    | { readonly kind: "bundle"; readonly arrayCount: number };
  /** Of the elements, without headers. */
  readonly byteLength: number;
  readonly paths: readonly string[];
}

export interface Inspection {
  readonly object: ObjectSummary;
  readonly holders: readonly Holder[];
  /** Holders beyond those that are named. */
  readonly holdersLeftOut: number;
}
