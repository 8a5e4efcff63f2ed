/**
 * One allocation of a pool, or one import from a pool of another process: when it may be used, what names it to others, and the stream in
 * whose order it goes back.
 */
import type { Deadline } from "../base/deadline.js";
import type { DevicePointer } from "../driver/gpu-driver.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { POOL_DESCRIPTOR_VERSION, type PooledDescriptor } from "../wire/pool-descriptor.js";
import { waitUntil } from "./adaptive-wait.js";
import type { MappedMemory } from "./mapped-memory.js";
import type { PoolCore } from "./pool-core.js";
import type { Stream } from "./stream.js";

export class PooledMemory {
  readonly #core: PoolCore;
  readonly #pointer: DevicePointer;
  /** What it was allocated by; undefined once that has been reached. */
  #allocating: Stream | undefined;
  #freeing: Stream;
  #data: Uint8Array | undefined;

  /**
   * @param stream the one that allocated it, and frees it where no other is named; for an import the pool's own
   * @param data what names it, of an import, which may be used at once
   */
  constructor(core: PoolCore, pointer: DevicePointer, stream: Stream, data?: Uint8Array) {
    this.#core = core;
    this.#pointer = pointer;
    this.#allocating = data === undefined ? stream : undefined;
    this.#freeing = stream;
    this.#data = data;
  }

  /** WHY the whole stream: an event for each allocation would cost more than the allocation. A stream that was closed is past it. */
  async ready(deadline: Deadline): Promise<void> {
    const stream = this.#allocating;
    if (stream === undefined) return;
    await waitUntil(() => isPast(stream), deadline);
    this.#allocating = undefined;
  }

  /** Whether the free comes after all work of this stream, whenever it is enqueued. */
  freedAfter(stream: Stream): boolean {
    return this.#freeing === stream;
  }

  /** @throws TypeError for a stream that might come before the allocation */
  checkUsableOn(label: string, stream: Stream): void {
    if (this.#allocating === undefined || this.#allocating === stream) return;
    if (!isPast(this.#allocating)) {
      const found = "its allocation is work of another stream, which has not got there";
      throw new TypeError(`Cannot use "${label}" on this stream: ${found}; await buffer.ready() first`);
    }
    this.#allocating = undefined;
  }

  /**
   * From here on this stream's work comes before the free, which is not made before the stream of before is seen to have got to its own.
   * @throws TypeError, CLOSED
   */
  freeAfter(stream: Stream, mapped: MappedMemory): void {
    if (stream.device !== this.#core.device)
      throw new TypeError("Cannot free memory of a pool: the stream is of another device");
    // WHY asked for: a stream that was closed is refused before anything is.
    stream.handle;
    // WHY held only now: work on the stream that frees is not held, since the free would come after it.
    if (this.#freeing !== stream && !isPast(this.#freeing)) this.#freeing.hold(mapped);
    this.#freeing = stream;
  }

  /** What other processes import the memory by; from here on it names the mapping in this process too. */
  describe(mapped: MappedMemory, byteLength: number): PooledDescriptor {
    this.#data ??= this.#core.exportPointer(this.#pointer);
    const data = Buffer.from(this.#data).toString("base64");
    this.#core.remember(data, mapped);
    const sizes = { byteLength, allocationByteLength: mapped.byteLength };
    return { version: POOL_DESCRIPTOR_VERSION, kind: "pooled", pool: this.#core.id, data, ...sizes };
  }

  /**
   * As `describe`, for the descriptor of a shared object.
   * @throws TypeError where the allocation was not reached yet
   */
  name(
    mapped: MappedMemory,
    label: string,
  ): { readonly pool: string; readonly maxBytes: number; readonly data: string } {
    if (this.#allocating !== undefined && !isPast(this.#allocating)) {
      throw new TypeError(
        `Cannot share "${label}": a stream has still to get to its allocation; await buffer.ready() first`,
      );
    }
    this.#allocating = undefined;
    const { pool, data } = this.describe(mapped, mapped.byteLength);
    return { pool, maxBytes: this.#core.maxBytes, data };
  }

  /** What other processes import the pool by; the caller owns it. */
  exportPoolFd(): OwnedFd {
    return this.#core.exportFd();
  }

  bufferOpened(): void {
    this.#core.openBuffers += 1;
  }

  bufferClosed(): void {
    this.#core.openBuffers -= 1;
  }

  /** Enqueues the free. WHY the pool's own stream where the other was closed: that one's work was done then. */
  free(): void {
    const stream = this.#freeing.open ? this.#freeing : this.#core.stream;
    this.#core.free(this.#pointer, stream, this.#data);
  }
}

/** WHY not `stream.isIdle()`: what that throws once (a timeline that ended) is for those who wait for the stream's own work. */
export function isPast(stream: Stream): boolean {
  return !stream.open || stream.device.driver.isIdle(stream.handle);
}
