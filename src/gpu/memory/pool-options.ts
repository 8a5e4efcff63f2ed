/** The options of memory pools, and their checks. */
import { aBoolean, aString, integer, oneOf, optionsOf } from "../../base/option-checks.js";
import type { Access } from "../../os/mapping.js";
import { aStream } from "../option-checks.js";
import type { Stream } from "../order/stream.js";

export interface MemoryPoolOptions {
  /** The maximum size of the pool. A shared pool on a GPU grows up to it and never shrinks. */
  readonly maxBytes: number;
  /**
   * How many bytes the pool keeps for later allocations when buffers are closed; all by default.
   * Has no effect on a shared pool on a GPU.
   */
  readonly releaseThresholdBytes?: number | undefined;
  /** Whether other processes may import the pool; false by default. */
  readonly shared?: boolean | undefined;
  /** The name in error messages; "pool" by default. */
  readonly label?: string | undefined;
}

export interface PoolAllocateOptions {
  /**
   * The stream in whose order the memory is allocated, and freed unless `close` names another. Work
   * on this stream may use the memory at once. The default is the pool's own stream, which has no
   * other work.
   */
  readonly stream?: Stream | undefined;
  /** The name in error messages; the pool's label by default. */
  readonly label?: string | undefined;
}

export interface PooledImportOptions {
  /**
   * "read-write" by default. With "read" this buffer refuses writes, but nothing protects the
   * memory itself: any process that imports the pool can write to it.
   */
  readonly access?: Access | undefined;
  readonly label?: string | undefined;
}

export interface PoolImportOptions {
  readonly label?: string | undefined;
}

export const checkCreate = optionsOf<MemoryPoolOptions>(
  "MemoryPool.create()",
  { maxBytes: integer(1), releaseThresholdBytes: integer(0), shared: aBoolean, label: aString },
  { needs: ["maxBytes"], such: "{ maxBytes: 2 ** 30 }" },
);

export const checkAllocate = optionsOf<PoolAllocateOptions>("allocate()", {
  stream: aStream,
  label: aString,
});

export const checkImportPooled = optionsOf<PooledImportOptions>("import()", {
  access: oneOf("read", "read-write"),
  label: aString,
});

export const checkImportPool = optionsOf<PoolImportOptions>("MemoryPool.import()", {
  label: aString,
});
