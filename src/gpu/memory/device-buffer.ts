/**
 * A range of device memory that this process uses: read, write, fill, view, work of streams. Bytes
 * only; device-array.ts knows shapes. How the memory was made and travels is up to its mechanism
 * (mechanisms.ts). The mapping ends when the buffer is closed and nothing uses it any more.
 */
import { type Bytes, bytesOf } from "../../array/host-values.js";
import { checkInteger, checkRange } from "../../base/bytes.js";
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { checkWait } from "../../base/wait-checks.js";
import type { DevicePointer, FillPattern, Mechanism } from "../../driver/gpu-driver.js";
import type { Access } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { checkDevice } from "../check-arguments.js";
import type { Device } from "../device.js";
import type { Stream } from "../order/stream.js";
import { download, fillElements, upload } from "../transfer/byte-transfer.js";
import {
  type AllocateOptions,
  type BufferOptions,
  type CloseOptions,
  checkAllocate,
  checkClose,
  checkImport,
  type ImportOptions,
} from "./buffer-options.js";
import { type Lender, viewOf } from "./lender.js";
import type { MappedMemory, MemoryDescriptor } from "./mapped-memory.js";
import { allocateMemory, importMemory } from "./mechanisms.js";
import { type BufferUse, giveBackFrom, holdFor } from "./open-buffers.js";

export class DeviceBuffer {
  readonly device: Device;
  readonly label: string;
  readonly access: Access;
  readonly #held: BufferUse;
  readonly #byteLength: number;
  #open = true;
  /** Set if it is borrowed: then it holds no use of the memory. */
  readonly #lender: Lender | undefined;

  private constructor(
    held: BufferUse,
    { access, byteLength }: Omit<BufferOptions, "label">,
    lender?: Lender,
  ) {
    this.device = held.memory.device;
    this.label = held.label;
    this.access = access;
    this.#byteLength = byteLength;
    this.#held = held;
    this.#lender = lender;
    if (lender === undefined) holdFor(this, held);
  }

  /**
   * Allocates memory that can be shared. It is zeroed on the host device, undefined on a GPU.
   * @throws OUT_OF_MEMORY
   */
  static allocate(device: Device, byteLength: number, options: AllocateOptions = {}): DeviceBuffer {
    checkDevice(device);
    checkInteger("byteLength", byteLength, 0);
    checkAllocate(options);
    const { label = "buffer" } = options;
    const memory = allocateMemory(device, byteLength, options);
    return DeviceBuffer.over(memory, { label, byteLength, access: "read-write" });
  }

  /**
   * A buffer on memory of any mechanism. Takes over one use of the memory, also if it throws.
   * @internal
   */
  static over(memory: MappedMemory, options: BufferOptions): DeviceBuffer {
    const { label, byteLength } = options;
    // Compared first, because the words of the error take longer than all the rest.
    if (byteLength > memory.byteLength) {
      memory.release();
      checkRange(`Buffer "${label}"`, 0, byteLength, memory.byteLength);
    }
    return new DeviceBuffer({ label, memory }, options);
  }

  /**
   * Maps memory of any process by its file descriptor, which stays the caller's: a VMM allocation
   * on a GPU, a memory file (memfd) of sealed size on the host device.
   * @throws INVALID_DESCRIPTOR if the memory is not what is claimed
   */
  static import(device: Device, fd: OwnedFd, options: ImportOptions): DeviceBuffer {
    checkDevice(device);
    checkImport(options);
    const { label = "buffer", byteLength, access = "read" } = options;
    const memory = importMemory(device, fd, { ...options, label, access });
    return DeviceBuffer.over(memory, { label, byteLength, access });
  }

  /** Another buffer on the same mapping, also if this one was closed but the mapping is in use. */
  twin(label = this.label): DeviceBuffer {
    this.#lender?.lend();
    return new DeviceBuffer({ label, memory: this.#held.memory.retain() }, this);
  }

  /**
   * As `twin`, without a use of its own, which would cost too much. It closes with its lender.
   * @internal
   */
  borrow(lender: Lender): DeviceBuffer {
    this.#checkOpen();
    return new DeviceBuffer(this.#held, this, lender);
  }

  /** Bytes of the content. Grows if the memory grows. */
  get byteLength(): number {
    return this.#held.memory.contentByteLength ?? this.#byteLength;
  }

  /** Bytes of the mapping: `byteLength` rounded up to the granularity of the mechanism. */
  get allocationByteLength(): number {
    return this.#held.memory.byteLength;
  }

  /** Closes this buffer and returns one on the same memory for reading. */
  asReadOnly(): DeviceBuffer {
    const { label, byteLength } = this;
    const memory = this.memory.retain();
    const readOnly = new DeviceBuffer({ label, memory }, { byteLength, access: "read" });
    this.close();
    return readOnly;
  }

  /** How the memory travels between processes. */
  get mechanism(): Mechanism {
    return this.#held.memory.mechanism;
  }

  /** Whether the memory was opened here, and not allocated. */
  get imported(): boolean {
    return this.#held.memory.imported;
  }

  /** The address for the device's own use. For memory of a pool: valid after `ready()`. */
  get pointer(): DevicePointer {
    return this.memory.pointer;
  }

  /** For code that knows one mechanism. @internal */
  get memory(): MappedMemory {
    this.#checkOpen();
    this.#lender?.lend();
    return this.#held.memory;
  }

  get open(): boolean {
    return this.#open && this.#lender?.open !== false;
  }

  /** True once the memory has gone with its owner. Then the buffer throws PEER_GONE. @internal */
  get memoryGone(): boolean {
    return this.#held.memory.gone;
  }

  /**
   * Describes the memory to other processes, beside the descriptor of `exportFd`.
   * @throws UNSUPPORTED for legacy memory, TypeError for memory of a pool that is not `ready`
   * @internal
   */
  describe(): MemoryDescriptor {
    return this.memory.describe(this.label);
  }

  /**
   * A file descriptor by which other processes open this memory (for memory of a pool: the pool).
   * The memory lives for as long as the descriptor is open. The caller owns it.
   * @param access `read` gives a descriptor for reading alone if the kernel can enforce it
   * @throws UNSUPPORTED for imported memory, legacy memory and memory that grows
   */
  exportFd(access: Access = this.access): OwnedFd {
    return this.memory.exportFd(this.label, access);
  }

  /**
   * Resolves once every stream and process may use the memory. That is at once, except for memory
   * of a pool, whose allocation is work of a stream. `read`, `write` and `fill` wait by themselves.
   */
  async ready(options: WaitOptions = {}): Promise<void> {
    checkWait(options);
    await this.use("read", options, async () => {});
  }

  /** Copies bytes to the device. They must not change until this resolves. */
  async write(byteOffset: number, bytes: Bytes, options: WaitOptions = {}): Promise<void> {
    checkWait(options);
    checkRange(`Write to "${this.label}"`, byteOffset, bytes.byteLength, this.byteLength);
    await this.use("write", options, (mapped, deadline) =>
      upload(mapped, byteOffset, bytesOf(bytes), deadline),
    );
  }

  /** Copies bytes from the device into `target`. */
  async read(byteOffset: number, target: Bytes, options: WaitOptions = {}): Promise<void> {
    checkWait(options);
    checkRange(`Read of "${this.label}"`, byteOffset, target.byteLength, this.byteLength);
    await this.use("read", options, (mapped, deadline) =>
      download(mapped, byteOffset, bytesOf(target), deadline),
    );
  }

  /**
   * Fills `count` elements of 1, 2 or 4 bytes on the device. A fill that has begun runs to its end,
   * even if the wait is aborted.
   */
  async fill(
    byteOffset: number,
    pattern: FillPattern,
    count: number,
    options: WaitOptions = {},
  ): Promise<void> {
    checkWait(options);
    const byteLength = pattern.elementBytes * count;
    checkRange(`Fill of "${this.label}"`, byteOffset, byteLength, this.byteLength);
    await this.use("write", options, (mapped, deadline) =>
      fillElements(mapped, byteOffset, pattern, count, deadline),
    );
  }

  /**
   * Returns the memory of the host device as bytes, at most `limits.viewBytesMax` at a time. Other
   * processes see changes at once, in the CPU's memory order. The memory stays mapped while the
   * view is reachable, even after `close()`. Its ArrayBuffer cannot be moved: `transfer()`, a
   * transfer list or a byte stream throws. A store into a view of memory that was opened for
   * reading ends this process (SIGSEGV).
   * @throws UNSUPPORTED on a GPU, because the CPU cannot access its memory
   */
  view(byteOffset = 0, byteLength = this.byteLength - byteOffset): Uint8Array {
    this.#checkOpen();
    checkRange(`View of "${this.label}"`, byteOffset, byteLength, this.byteLength);
    return viewOf(this.#lender, this.#held.memory.view(this.label, byteOffset, byteLength));
  }

  /**
   * Runs work on the memory. The memory stays mapped until the work ends, even if the buffer is
   * closed meanwhile.
   * @internal
   */
  async use<T>(
    intent: "read" | "write",
    options: WaitOptions,
    work: (memory: MappedMemory, deadline: Deadline) => Promise<T>,
  ): Promise<T> {
    this.#checkOpen();
    if (intent === "write") this.#checkWritable();
    const verb = intent === "write" ? "write to" : "read";
    const deadline = new Deadline(`${verb} "${this.label}"`, options, Number.POSITIVE_INFINITY);
    deadline.check();
    const memory = this.#held.memory.retain();
    return this.device.run(async () => {
      try {
        // Awaited only if needed: otherwise the work begins within this call.
        const pending = memory.ready(deadline);
        if (pending !== undefined) await pending;
        const result = await work(memory, deadline);
        // Again: the owner may have gone in the middle, and other memory was read.
        memory.refuseGone(this.label);
        return result;
      } finally {
        memory.release();
      }
    });
  }

  /**
   * Enqueues work on the memory. The memory stays mapped until the stream is closed or next found
   * idle (by `isIdle` or `synchronize`), even if the buffer is closed meanwhile.
   * @internal
   */
  enqueue<T>(intent: "read" | "write", stream: Stream, work: (memory: MappedMemory) => T): T {
    this.#checkOpen();
    if (intent === "write") this.#checkWritable();
    const { memory } = this.#held;
    this.#lender?.lend(stream);
    memory.checkUsableOn(this.label, stream);
    // Holding memory that this stream frees later would keep it from being allocated again.
    if (!memory.freedAfter(stream)) stream.hold(memory);
    return work(memory);
  }

  /** The listener is called once, when the memory is unmapped. @internal */
  onUnmapped(listener: () => void): void {
    this.#held.memory.onUnmapped(listener);
  }

  /**
   * Closes the buffer. With a stream, the memory is freed in the order of that stream.
   * @throws TypeError if the stream is of another device
   * @throws UNSUPPORTED if a stream is given and the memory is not of a pool
   */
  close(options: CloseOptions = {}): void {
    checkClose(options);
    if (!this.#open) return;
    if (options.stream !== undefined) this.#held.memory.freeAfter(options.stream, this.label);
    this.#open = false;
    if (this.#lender === undefined) giveBackFrom(this, this.#held);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #checkOpen(): void {
    if (!this.open) throw new CudaIpcError("CLOSED", `Cannot use "${this.label}": it was closed`);
    this.#held.memory.refuseGone(this.label);
  }

  #checkWritable(): void {
    if (this.access === "read-write") return;
    throw new CudaIpcError(
      "READ_ONLY",
      `Cannot write to "${this.label}": it was opened for reading`,
    );
  }
}
