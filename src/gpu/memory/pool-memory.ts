/**
 * Memory of a pool: allocated and freed in the order of streams, and shared by one descriptor for
 * the pool and 64 bytes for each allocation.
 */
import type { Deadline } from "../../base/deadline.js";
import type { DevicePointer } from "../../driver/gpu-driver.js";
import type { Access } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { POOL_DESCRIPTOR_VERSION, type PooledDescriptor } from "../../wire/pool-descriptor.js";
import { waitUntil } from "../order/adaptive-wait.js";
import type { Stream } from "../order/stream.js";
import { limitFd } from "./descriptor-memory.js";
import { MappedMemory, type MemoryDescriptor } from "./mapped-memory.js";
import type { PoolCore } from "./pool-core.js";

/** An allocation of a pool, or an import from a pool of another process. */
export interface PoolRange {
  readonly pointer: DevicePointer;
  readonly byteLength: number;
  /** The stream that allocated it, and frees it by default. For an import the pool's own. */
  readonly stream: Stream;
  /** The driver's bytes of an import, which may be used at once. */
  readonly data: Uint8Array | undefined;
}

export class PoolMemory extends MappedMemory {
  readonly mechanism = "pool";
  readonly imported: boolean;
  readonly #core: PoolCore;
  /** The stream that has still to reach the allocation. */
  #allocating: Stream | undefined;
  #freeing: Stream;
  #data: Uint8Array | undefined;

  constructor(core: PoolCore, { pointer, byteLength, stream, data }: PoolRange) {
    super(core.device, pointer, byteLength);
    this.imported = data !== undefined;
    this.#core = core;
    this.#allocating = data === undefined ? stream : undefined;
    this.#freeing = stream;
    this.#data = data;
  }

  /** Memory that may be of any mechanism. @throws UNSUPPORTED if it is not of a pool */
  static of(memory: MappedMemory, label: string): PoolMemory {
    if (memory instanceof PoolMemory) return memory;
    throw memory.notPooled("export", label);
  }

  get poolId(): string {
    return this.#core.id;
  }

  /**
   * Waits for the whole stream, because an event for each allocation would cost more than the
   * allocation.
   */
  override ready(deadline: Deadline): Promise<void> | undefined {
    const stream = this.#allocating;
    if (stream === undefined) return undefined;
    return waitUntil(() => isPast(stream), deadline).then(() => {
      this.#allocating = undefined;
    });
  }

  override freedAfter(stream: Stream): boolean {
    return this.#freeing === stream;
  }

  override checkUsableOn(label: string, stream: Stream): void {
    if (this.#allocating === undefined || this.#allocating === stream) return;
    this.#checkAllocated(`use "${label}" on this stream`);
  }

  /** The new stream frees once the stream that was to free before is seen to have got there. */
  override freeAfter(stream: Stream): void {
    if (stream.device !== this.device)
      throw new TypeError("Cannot free memory of a pool: the stream is of another device");
    // A closed stream is refused here, before anything changes.
    stream.handle;
    // Work on the stream that frees is not held, because the free comes after it.
    if (this.#freeing !== stream && !isPast(this.#freeing)) this.#freeing.hold(this);
    this.#freeing = stream;
  }

  override bufferOpened(): void {
    this.#core.openBuffers += 1;
  }

  override bufferClosed(): void {
    this.#core.openBuffers -= 1;
  }

  /** Names the memory to other processes. From here on the name finds this mapping here, too. */
  describePooled(byteLength: number): PooledDescriptor {
    return {
      version: POOL_DESCRIPTOR_VERSION,
      kind: "pooled",
      pool: this.#core.id,
      data: this.#name(),
      byteLength,
      allocationByteLength: this.byteLength,
    };
  }

  /** @throws TypeError if a stream has still to get to the allocation */
  describe(label: string): MemoryDescriptor {
    if (this.#allocating !== undefined) this.#checkAllocated(`share "${label}"`);
    const { id: pool, maxBytes } = this.#core;
    return {
      device: this.device.reference,
      mechanism: "pool",
      pooled: { pool, maxBytes, data: this.#name() },
      allocationByteLength: this.byteLength,
    };
  }

  exportFd(_label: string, access: Access): OwnedFd {
    return limitFd(this.device, this.#core.exportFd(), access);
  }

  /** Frees on the pool's own stream if the other was closed: that one's work was done by then. */
  protected unmap(): void {
    const stream = this.#freeing.open ? this.#freeing : this.#core.stream;
    try {
      this.#core.free(this.pointer, stream, this.#data);
    } finally {
      this.#core.mappingEnded();
    }
  }

  #name(): string {
    this.#data ??= this.#core.exportPointer(this.pointer);
    const data = Buffer.from(this.#data).toString("base64");
    this.#core.remember(data, this);
    return data;
  }

  #checkAllocated(attempt: string): void {
    if (this.#allocating !== undefined && !isPast(this.#allocating)) {
      throw new TypeError(
        `Cannot ${attempt}: another stream has not reached its allocation; ` +
          "await buffer.ready() first",
      );
    }
    this.#allocating = undefined;
  }
}

/**
 * Whether the stream has nothing left to do. A closed one has nothing. WHY not `stream.isIdle()`:
 * it throws the failure of the stream's own work, once, and the stream's user must get that.
 */
export function isPast(stream: Stream): boolean {
  return !stream.open || stream.device.driver.isIdle(stream.handle);
}
