/**
 * Memory of a device, allocated here or imported from another process, mapped as a whole. Bytes only; device-array.ts knows
 * shapes. The mapping goes when the buffer is closed and nothing uses it any more: no transfer, and no view of JavaScript's.
 */
import { checkInteger, checkRange, formatBytes, roundUp } from "../base/bytes.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { acquireIn, Scope } from "../base/scope.js";
import type { DevicePointer, DriverMemory, FillPattern, Mechanism } from "../driver/gpu-driver.js";
import { viewAt } from "../os/host-memory.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { waitUntil } from "./adaptive-wait.js";
import type { Device } from "./device.js";

export interface ImportOptions {
  /** The name in error messages. */
  readonly label: string;
  readonly byteLength: number;
  readonly allocationByteLength: number;
  readonly access: Access;
}

let liveCount = 0;

const collectedViews = new FinalizationRegistry<DeviceBuffer>((buffer) => buffer.forgetView());

export class DeviceBuffer {
  readonly device: Device;
  readonly label: string;
  readonly byteLength: number;
  /** What is mapped: `byteLength` rounded up to the device's granularity. */
  readonly allocationByteLength: number;
  readonly access: Access;
  readonly #pointer: DevicePointer;
  #memory: DriverMemory | undefined;
  #open = true;
  #mapped = true;
  #users = 0;

  private constructor(
    device: Device,
    options: ImportOptions,
    pointer: DevicePointer,
    memory: DriverMemory | undefined,
  ) {
    this.device = device;
    this.label = options.label;
    this.byteLength = options.byteLength;
    this.allocationByteLength = options.allocationByteLength;
    this.access = options.access;
    this.#pointer = pointer;
    this.#memory = memory;
    liveCount += 1;
  }

  /**
   * New memory that can be exported. Its content is zero on the host device and undefined on a GPU.
   * @throws OUT_OF_MEMORY
   */
  static allocate(device: Device, byteLength: number, label = "buffer"): DeviceBuffer {
    checkInteger("byteLength", byteLength, 0);
    const allocationByteLength = roundUp(Math.max(1, byteLength), device.facts.granularityBytes);
    return acquireIn((scope) => {
      const { driver } = device;
      const memory = driver.createMemory(device.ordinal, allocationByteLength);
      scope.own(memory, (memory) => driver.releaseMemory(memory));
      const pointer = driver.mapMemory(memory, "read-write");
      return new DeviceBuffer(
        device,
        { label, byteLength, allocationByteLength, access: "read-write" },
        pointer,
        memory,
      );
    });
  }

  /**
   * Maps memory of another process (or of this one) by its descriptor, which stays the caller's and may be closed afterwards.
   * @throws INVALID_DESCRIPTOR where the memory is not what is claimed
   */
  static import(device: Device, fd: OwnedFd, options: ImportOptions): DeviceBuffer {
    const { driver } = device;
    const memory = driver.importMemory(device.ordinal, fd, options.allocationByteLength);
    const scope = new Scope();
    // WHY released at once: the mapping keeps the memory, and nothing else is done with an imported handle.
    scope.defer(() => driver.releaseMemory(memory));
    try {
      return new DeviceBuffer(device, options, driver.mapMemory(memory, options.access), undefined);
    } finally {
      scope.close();
    }
  }

  get mechanism(): Mechanism {
    return this.device.driver.mechanism;
  }

  /** The address of a byte of the memory, for calls on the driver. */
  pointerAt(byteOffset: number): DevicePointer {
    return this.#pointer + BigInt(byteOffset);
  }

  /** The address for the device's own use. */
  get pointer(): DevicePointer {
    this.#checkOpen();
    return this.#pointer;
  }

  get open(): boolean {
    return this.#open;
  }

  /** Whether `exportFd` gives a descriptor: the memory was allocated here and not imported. */
  get exportable(): boolean {
    return this.#memory !== undefined;
  }

  /**
   * A descriptor by which other processes import this memory; the memory lives for as long as it is open. The caller owns it.
   * @throws UNSUPPORTED for memory that was itself imported
   */
  exportFd(): OwnedFd {
    this.#checkOpen();
    if (this.#memory === undefined) {
      throw new CudaIpcError("UNSUPPORTED", `Cannot export "${this.label}": it was imported; share the name instead`);
    }
    return this.device.driver.exportMemory(this.#memory);
  }

  /** Copies bytes to the device. They must not change until this resolves. */
  async write(byteOffset: number, bytes: Uint8Array, options: WaitOptions = {}): Promise<void> {
    checkRange(`Write to "${this.label}"`, byteOffset, bytes.byteLength, this.byteLength);
    await this.use("write to", options, (deadline) =>
      this.device.lanes.forEachPiece(bytes.byteLength, (lane, piece) => {
        const part = bytes.subarray(piece.byteOffset, piece.byteOffset + piece.byteLength);
        return lane.upload(this.pointerAt(byteOffset + piece.byteOffset), part, deadline);
      }),
    );
  }

  /** Copies bytes from the device into `target`. */
  async read(byteOffset: number, target: Uint8Array, options: WaitOptions = {}): Promise<void> {
    checkRange(`Read of "${this.label}"`, byteOffset, target.byteLength, this.byteLength);
    await this.use("read", options, (deadline) =>
      this.device.lanes.forEachPiece(target.byteLength, (lane, piece) => {
        const part = target.subarray(piece.byteOffset, piece.byteOffset + piece.byteLength);
        return lane.download(this.pointerAt(byteOffset + piece.byteOffset), part, deadline);
      }),
    );
  }

  /** Fills `count` elements of 1, 2 or 4 bytes, by the device itself. */
  async fill(byteOffset: number, pattern: FillPattern, count: number, options: WaitOptions = {}): Promise<void> {
    checkRange(`Fill of "${this.label}"`, byteOffset, pattern.elementBytes * count, this.byteLength);
    await this.use("write to", options, async (deadline) => {
      const { driver, ordinal } = this.device;
      const stream = driver.createStream(ordinal);
      try {
        driver.fill(stream, this.pointerAt(byteOffset), pattern, count);
        await waitUntil(() => driver.isIdle(stream), deadline.unlimited());
      } finally {
        driver.destroyStream(stream);
      }
    });
  }

  /**
   * The memory itself as bytes, on the host device; at most `limits.viewBytesMax` at a time. Changes show on both sides at
   * once, in no order but the CPU's. It stays mapped for as long as the view is reachable, also after `close()`.
   * A store into a view of memory that was opened for reading ends this process (SIGSEGV).
   * @throws UNSUPPORTED on a GPU, whose memory the CPU does not see
   */
  view(byteOffset = 0, byteLength = this.byteLength - byteOffset): Uint8Array {
    this.#checkOpen();
    checkRange(`View of "${this.label}"`, byteOffset, byteLength, this.byteLength);
    const bytes = this.#window(byteOffset, byteLength);
    this.#users += 1;
    collectedViews.register(bytes.buffer, this);
    return bytes;
  }

  /** As `view`, for work that ends before it returns and keeps no reference to the bytes. */
  withView<T>(byteOffset: number, byteLength: number, work: (bytes: Uint8Array) => T): T {
    this.#checkOpen();
    checkRange(`View of "${this.label}"`, byteOffset, byteLength, this.byteLength);
    return work(this.#window(byteOffset, byteLength));
  }

  /** Called by the garbage collector's registry when a view is gone; not for users. */
  forgetView(): void {
    this.#users -= 1;
    this.#unmapIfUnused();
  }

  /** Runs work on the memory, which stays mapped until the work ends even when the buffer is closed meanwhile. */
  async use<T>(verb: string, options: WaitOptions, work: (deadline: Deadline) => Promise<T>): Promise<T> {
    if (verb.startsWith("write")) this.#checkWritable();
    const deadline = new Deadline(`${verb} "${this.label}"`, options, Number.POSITIVE_INFINITY);
    this.#checkOpen();
    deadline.check();
    this.#users += 1;
    try {
      return await work(deadline);
    } finally {
      this.#users -= 1;
      this.#unmapIfUnused();
    }
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    liveCount -= 1;
    const memory = this.#memory;
    this.#memory = undefined;
    const scope = new Scope();
    scope.defer(() => this.#unmapIfUnused());
    if (memory !== undefined) scope.defer(() => this.device.driver.releaseMemory(memory));
    scope.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #window(byteOffset: number, byteLength: number): Uint8Array {
    const address = this.device.driver.cpuAddress(this.pointerAt(byteOffset));
    if (address === undefined) {
      throw new CudaIpcError(
        "UNSUPPORTED",
        `Cannot view "${this.label}": it is memory of ${this.device.name}; use read()`,
      );
    }
    if (byteLength > limits.viewBytesMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot view ${formatBytes(byteLength)} of "${this.label}" at once: the limit (viewBytesMax) is ` +
          `${formatBytes(limits.viewBytesMax)}; view parts of it`,
      );
    }
    return viewAt(address, byteLength);
  }

  #unmapIfUnused(): void {
    if (this.#open || !this.#mapped || this.#users > 0) return;
    this.#mapped = false;
    this.device.driver.unmapMemory(this.device.ordinal, this.#pointer);
  }

  #checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot use "${this.label}": it was closed`);
  }

  #checkWritable(): void {
    if (this.access === "read-write") return;
    throw new CudaIpcError("READ_ONLY", `Cannot write to "${this.label}": it was opened for reading`);
  }
}

/** Buffers of this process that are open; what leak checks compare. */
export function openBufferCount(): number {
  return liveCount;
}
