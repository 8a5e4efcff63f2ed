/**
 * Memory of a device that has an address in this process, and a refcount of what uses it: open
 * buffers, transfers under way, views. Each mechanism is a subclass in a file of its own, and
 * mechanisms.ts lists them.
 */
import { checkRange, formatBytes } from "../../base/bytes.js";
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { RefCounted } from "../../base/ref-counted.js";
import { releaseAll } from "../../base/scope.js";
import type { DevicePointer, Mechanism } from "../../driver/gpu-driver.js";
import { viewAt } from "../../os/host-memory.js";
import type { Access } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { unmovable } from "../../os/unmovable.js";
import type { Descriptor } from "../../wire/descriptor.js";
import type { Device } from "../device.js";
import type { Stream } from "../order/stream.js";

/** The part of a descriptor that another process needs to open the memory. */
export type MemoryDescriptor = Pick<
  Descriptor,
  "device" | "mechanism" | "pooled" | "legacy" | "allocationByteLength"
>;

const collectedViews = new FinalizationRegistry<MappedMemory>((memory) => {
  try {
    memory.release();
  } catch (error) {
    process.emitWarning(
      `A view was collected, and its memory could not be unmapped: ${String(error)}`,
      "CudaIpcLeak",
    );
  }
});

export abstract class MappedMemory extends RefCounted {
  abstract readonly mechanism: Mechanism;
  /** Whether another process, or this one through a handle, allocated it. */
  abstract readonly imported: boolean;
  readonly device: Device;
  readonly pointer: DevicePointer;
  readonly #onUnmapped: (() => void)[] = [];
  #byteLength: number;

  /** The first user is the caller. */
  protected constructor(device: Device, pointer: DevicePointer, byteLength: number) {
    super();
    device.retain();
    this.device = device;
    this.pointer = pointer;
    this.#byteLength = byteLength;
  }

  /** Ends the mapping and gives back what it needed. Called once, after the last user. */
  protected abstract unmap(): void;

  /**
   * Describes the memory to other processes.
   * @throws UNSUPPORTED for memory that does not travel by file descriptor
   */
  abstract describe(label: string): MemoryDescriptor;

  /**
   * A file descriptor by which other processes open the memory. The caller owns it.
   * @throws UNSUPPORTED for memory that does not travel by file descriptor, or was imported
   */
  abstract exportFd(label: string, access: Access): OwnedFd;

  /** True once the memory has gone with its owner, which is another process. */
  get gone(): boolean {
    return false;
  }

  /** @throws PEER_GONE if the memory has gone with its owner */
  refuseGone(_label: string): void {}

  /**
   * Returns a memory file that the kernel can fill directly, or undefined if there is none. The
   * caller owns it.
   */
  exportFile(): OwnedFd | undefined {
    return undefined;
  }

  /** A promise if the memory is not usable yet: an allocation that is work of a stream. */
  ready(_deadline: Deadline): Promise<void> | undefined {
    return undefined;
  }

  /** @throws TypeError if the stream could reach its work before the memory is allocated */
  checkUsableOn(_label: string, _stream: Stream): void {}

  /** True if the memory is freed after all work of this stream, whenever that is enqueued. */
  freedAfter(_stream: Stream): boolean {
    return false;
  }

  /**
   * Frees the memory in the order of this stream.
   * @throws UNSUPPORTED for memory that streams do not free, TypeError for another device's stream
   */
  freeAfter(_stream: Stream, label: string): void {
    throw this.notPooled("close", label);
  }

  bufferOpened(): void {}

  bufferClosed(): void {}

  /** Bytes of the content if the memory grows; undefined if each buffer knows its own. */
  get contentByteLength(): number | undefined {
    return undefined;
  }

  get byteLength(): number {
    return this.#byteLength;
  }

  protected get countedAs(): string {
    return "memory";
  }

  protected onLastRelease(): void {
    const end = [() => this.unmap(), () => this.device.release()];
    // Memory of pools comes and goes often, and rarely has listeners.
    if (this.#onUnmapped.length === 0) releaseAll(end);
    else releaseAll([...this.#onUnmapped.splice(0), ...end]);
  }

  /** Calls the listener once when the last user is gone. */
  onUnmapped(listener: () => void): void {
    this.#onUnmapped.push(listener);
  }

  pointerAt(byteOffset: number): DevicePointer {
    return byteOffset === 0 ? this.pointer : this.pointer + BigInt(byteOffset);
  }

  /**
   * The memory as bytes, valid for as long as the caller is a user.
   * @throws UNSUPPORTED if the CPU does not see the memory, LIMIT_EXCEEDED beyond `viewBytesMax`
   */
  window(label: string, byteOffset: number, byteLength: number): Uint8Array {
    checkRange(`View of "${label}"`, byteOffset, byteLength, this.byteLength);
    const address = this.device.driver.cpuAddress(this.pointer);
    if (address === undefined) {
      throw new CudaIpcError(
        "UNSUPPORTED",
        `Cannot view "${label}": it is memory of ${this.device.name}; use read()`,
      );
    }
    if (byteLength > limits.viewBytesMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot view ${formatBytes(byteLength)} of "${label}" at once: ` +
          "the limit (viewBytesMax) is " +
          `${formatBytes(limits.viewBytesMax)}; view parts of it`,
      );
    }
    return viewAt(address + BigInt(byteOffset), byteLength);
  }

  /**
   * As `window`, and the memory stays mapped for as long as the bytes are reachable. Their
   * ArrayBuffer cannot be moved.
   */
  view(label: string, byteOffset: number, byteLength: number): Uint8Array {
    const bytes = this.window(label, byteOffset, byteLength);
    if (byteLength === 0) return bytes;
    const buffer = unmovable(bytes.buffer as ArrayBuffer);
    collectedViews.register(buffer, this.retain());
    return new Uint8Array(buffer);
  }

  protected grownTo(byteLength: number): void {
    this.#byteLength = byteLength;
  }

  /** @internal */
  notPooled(verb: string, label: string): CudaIpcError {
    return new CudaIpcError(
      "UNSUPPORTED",
      `Cannot ${verb} "${label}" as memory of a pool: it is ${this.mechanism} memory`,
    );
  }
}
