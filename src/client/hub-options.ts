/** What the functions of a hub take and give. */
import type { WaitOptions } from "../base/deadline.js";
import type { MemoryPool } from "../gpu/memory-pool.js";
import type { Access } from "../os/mapping.js";
import type { Holder, Lifetime, ObjectSummary, Sharing } from "../wire/messages.js";
import type { PlaceOptions } from "./placement.js";

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

export interface CreateBundleOptions extends CreateOptions {
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

export interface Inspection {
  readonly object: ObjectSummary;
  readonly holders: readonly Holder[];
  /** Holders beyond those that are named. */
  readonly holdersLeftOut: number;
}
