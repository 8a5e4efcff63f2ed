/**
 * Memory of a device, allocated here or imported from another process, of any mechanism. Bytes only; device-array.ts knows
 * shapes. The mapping goes when the buffer is closed and nothing uses it any more: no transfer, and no view of JavaScript's.
 */
import { checkInteger, checkRange, roundUp } from "../base/bytes.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { checkOneOf } from "../base/one-of.js";
import { acquireIn } from "../base/scope.js";
import type { DevicePointer, FillPattern, Mechanism } from "../driver/gpu-driver.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { PooledDescriptor } from "../wire/pool-descriptor.js";
import { waitUntil } from "./adaptive-wait.js";
import type { AllocateOptions, BufferOptions, CloseOptions, ImportOptions } from "./buffer-options.js";
import type { Device } from "./device.js";
import { giveBackFrom, type HeldMemory, holdFor } from "./held-memory.js";
import { allocateLegacy, type ExportedHandle, exportLegacy } from "./legacy-memory.js";
import { MappedMemory } from "./mapped-memory.js";
import type { Stream } from "./stream.js";
import { download, upload } from "./transfer.js";

export class DeviceBuffer {
  readonly device: Device;
  readonly label: string;
  readonly access: Access;
  readonly #held: HeldMemory;
  #byteLength: number;
  #open = true;
  /** It holds nothing: see `borrow`. */
  readonly #borrowed: boolean;

  /** Takes over what is held, unless it is borrowed. */
  private constructor(held: HeldMemory, { access, byteLength }: Omit<BufferOptions, "label">, borrowed = false) {
    this.device = held.mapped.device;
    this.label = held.label;
    this.access = access;
    this.#byteLength = byteLength;
    this.#held = held;
    this.#borrowed = borrowed;
    if (!borrowed) holdFor(this, this.#held);
  }

  /**
   * New memory that can be exported. Its content is zero on the host device and undefined on a GPU.
   * @throws OUT_OF_MEMORY
   */
  static allocate(device: Device, byteLength: number, options: AllocateOptions = {}): DeviceBuffer {
    checkInteger("byteLength", byteLength, 0);
    const { label = "buffer", place, mechanism } = options;
    if (mechanism !== undefined) {
      checkOneOf("mechanism", mechanism, ["legacy"]);
      if (place !== undefined) checkOneOf("place (with mechanism legacy)", place, ["device"]);
      return DeviceBuffer.over(allocateLegacy(device, byteLength), { label, byteLength, access: "read-write" });
    }
    const allocationByteLength = roundUp(Math.max(1, byteLength), device.facts.granularityBytes);
    return acquireIn((scope) => {
      const memory = device.driver.createMemory(device.ordinal, allocationByteLength, place);
      scope.own(memory, (memory) => device.driver.releaseMemory(memory));
      const mapped = MappedMemory.map(device, memory, "read-write");
      return new DeviceBuffer({ label, mapped, memory }, { byteLength, access: "read-write" });
    });
  }

  /** A buffer over memory of any mechanism; takes over one use of it. Not for users. */
  static over(mapped: MappedMemory, options: BufferOptions): DeviceBuffer {
    const { label, byteLength } = options;
    checkRange(`Buffer "${label}"`, 0, byteLength, mapped.byteLength);
    return new DeviceBuffer({ label, mapped, memory: undefined }, options);
  }

  /**
   * Maps memory of another process (or of this one) by its descriptor, which stays the caller's and may be closed afterwards.
   * @throws INVALID_DESCRIPTOR where the memory is not what is claimed
   */
  static import(device: Device, fd: OwnedFd, options: ImportOptions): DeviceBuffer {
    checkOneOf("access", options.access, ["read", "read-write"]);
    const memory = device.driver.importMemory(device.ordinal, fd, options.allocationByteLength, options.place);
    return acquireIn((scope) => {
      let mapped: MappedMemory;
      try {
        mapped = scope.own(MappedMemory.map(device, memory, options.access), (mapped) => mapped.release());
      } finally {
        // WHY released at once: the mapping keeps the memory, and nothing else is done with an imported handle.
        device.driver.releaseMemory(memory);
      }
      return new DeviceBuffer({ label: options.label, mapped, memory: undefined }, options);
    });
  }

  /** A buffer of its own on the same mapping, also where this one was closed but others keep the mapping. */
  twin(label = this.label): DeviceBuffer {
    return new DeviceBuffer({ label, mapped: this.#held.mapped.retain(), memory: undefined }, this);
  }

  /**
   * As `twin`, without a use of its own: whoever borrows it closes it before this buffer. WHY beside it: a twin takes longer than the other
   * things that are done with a message of a channel. Not for users.
   */
  borrow(): DeviceBuffer {
    this.#checkOpen();
    return new DeviceBuffer(this.#held, this, true);
  }

  /** Bytes of the content; more later where the memory grows. */
  get byteLength(): number {
    return this.#byteLength;
  }

  /** What is mapped: `byteLength` rounded up to the granularity of its mechanism. */
  get allocationByteLength(): number {
    return this.#held.mapped.byteLength;
  }

  /** This memory for reading alone, in place of this buffer, which is closed. */
  asReadOnly(): DeviceBuffer {
    const { mapped } = this.#held;
    const { label, byteLength } = this;
    const held = { label, mapped: mapped.retain(), memory: undefined };
    const readOnly = new DeviceBuffer(held, { byteLength, access: "read" });
    this.close();
    return readOnly;
  }

  get mechanism(): Mechanism {
    return this.#held.mapped.mechanism;
  }

  /** The address for the device's own use. Of a pool's memory: once `ready()` has resolved, or on the stream that it was made with. */
  get pointer(): DevicePointer {
    this.#checkOpen();
    return this.#held.mapped.pointer;
  }

  get open(): boolean {
    return this.#open;
  }

  /** Whether `exportFd` gives a descriptor: the memory was allocated here, with a descriptor of its own. */
  get exportable(): boolean {
    return this.#held.memory !== undefined;
  }

  /**
   * A descriptor by which other processes import this memory, or of memory of a pool the pool; the memory lives for as long as it is open.
   * The caller owns it.
   * @throws UNSUPPORTED for memory that was itself imported, and of the legacy mechanism
   */
  exportFd(): OwnedFd {
    this.#checkOpen();
    const { memory, mapped } = this.#held;
    if (mapped.pooled !== undefined) return mapped.pooled.exportPoolFd();
    if (memory !== undefined) return this.device.driver.exportMemory(memory);
    const found =
      this.mechanism === this.device.driver.mechanism ? "it was imported" : `it is ${this.mechanism} memory`;
    throw new CudaIpcError("UNSUPPORTED", `Cannot export "${this.label}" as a file descriptor: ${found}`);
  }

  /** Of memory of a pool: what names it beside the pool's descriptor. @throws TypeError where it is not `ready` */
  get pooledName(): { readonly pool: string; readonly maxBytes: number; readonly data: string } | undefined {
    this.#checkOpen();
    const { mapped } = this.#held;
    return mapped.pooled?.name(mapped, this.label);
  }

  /**
   * The handle by which other processes open memory of the legacy mechanism, for as long as it is open here.
   * @throws UNSUPPORTED for memory of another mechanism, and for what was itself imported
   */
  exportHandle(): ExportedHandle {
    this.#checkOpen();
    return exportLegacy(this.#held.mapped, this.label);
  }

  /**
   * What names memory of a pool to other processes, once it may be used there; see `MemoryPool.import`. The memory is theirs to use
   * until this process frees it: it waits with that until they have closed their imports.
   * @throws UNSUPPORTED for memory of another mechanism, or of a pool that is not shared
   */
  async exportPooled(options: WaitOptions = {}): Promise<PooledDescriptor> {
    this.#checkOpen();
    const { mapped } = this.#held;
    const { pooled } = mapped;
    if (pooled === undefined) throw this.#notPooled("export");
    await this.ready(options);
    return pooled.describe(mapped, this.byteLength);
  }

  /**
   * Resolves once every stream and process may use the memory: at once, but for memory of a pool, whose allocation is work of a stream.
   * `read`, `write`, `fill` and `exportPooled` wait for it by themselves.
   */
  async ready(options: WaitOptions = {}): Promise<void> {
    await this.use("read", options, async () => {});
  }

  /** Copies bytes to the device. They must not change until this resolves. */
  async write(byteOffset: number, bytes: Uint8Array, options: WaitOptions = {}): Promise<void> {
    checkRange(`Write to "${this.label}"`, byteOffset, bytes.byteLength, this.byteLength);
    await this.use("write", options, (mapped, deadline) => upload(mapped, byteOffset, bytes, deadline));
  }

  /** Copies bytes from the device into `target`. */
  async read(byteOffset: number, target: Uint8Array, options: WaitOptions = {}): Promise<void> {
    checkRange(`Read of "${this.label}"`, byteOffset, target.byteLength, this.byteLength);
    await this.use("read", options, (mapped, deadline) => download(mapped, byteOffset, target, deadline));
  }

  /** Fills `count` elements of 1, 2 or 4 bytes, by the device itself. A fill that was begun is finished. */
  async fill(byteOffset: number, pattern: FillPattern, count: number, options: WaitOptions = {}): Promise<void> {
    checkRange(`Fill of "${this.label}"`, byteOffset, pattern.elementBytes * count, this.byteLength);
    await this.use("write", options, async (mapped, deadline) => {
      const { driver, ordinal } = this.device;
      const stream = driver.createStream(ordinal);
      try {
        driver.fill(stream, mapped.pointerAt(byteOffset), pattern, count);
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
    return this.#held.mapped.view(this.label, byteOffset, byteLength);
  }

  /** Runs work on the memory, which stays mapped until the work ends even when the buffer is closed meanwhile. */
  async use<T>(
    intent: "read" | "write",
    options: WaitOptions,
    work: (mapped: MappedMemory, deadline: Deadline) => Promise<T>,
  ): Promise<T> {
    this.#checkOpen();
    if (intent === "write") this.#checkWritable();
    const verb = intent === "write" ? "write to" : "read";
    const deadline = new Deadline(`${verb} "${this.label}"`, options, Number.POSITIVE_INFINITY);
    deadline.check();
    const mapped = this.#held.mapped.retain();
    return this.device.run(async () => {
      try {
        // WHY asked first: work on other memory begins within this call.
        if (mapped.pooled !== undefined) await mapped.pooled.ready(deadline);
        return await work(mapped, deadline);
      } finally {
        mapped.release();
      }
    });
  }

  /**
   * Enqueues work on the memory, which stays mapped until the stream is next seen idle (`isIdle`, `synchronize`) or is closed, even when
   * the buffer is closed meanwhile.
   */
  enqueue<T>(intent: "read" | "write", stream: Stream, work: (mapped: MappedMemory) => T): T {
    this.#checkOpen();
    if (intent === "write") this.#checkWritable();
    const { mapped } = this.#held;
    mapped.pooled?.checkUsableOn(this.label, stream);
    // WHY not held: the free of a pool's memory comes after this work, and holding it would keep it from being allocated again.
    if (mapped.pooled?.freedAfter(stream) !== true) stream.hold(mapped);
    return work(mapped);
  }

  /** Called once when the mapping has ended; not for users. */
  onUnmapped(listener: () => void): void {
    this.#held.mapped.onUnmapped(listener);
  }

  /** From here on there is more of the memory, at the same address. Not for users. */
  grownTo(byteLength: number): void {
    checkRange(`Buffer "${this.label}"`, 0, byteLength, this.allocationByteLength);
    this.#byteLength = byteLength;
  }

  /** With a stream: @throws TypeError for one of another device, UNSUPPORTED for memory that is not of a pool */
  close(options: CloseOptions = {}): void {
    if (!this.#open) return;
    if (options.stream !== undefined) {
      const { pooled } = this.#held.mapped;
      if (pooled === undefined) throw this.#notPooled("close");
      pooled.freeAfter(options.stream, this.#held.mapped);
    }
    this.#open = false;
    if (!this.#borrowed) giveBackFrom(this, this.#held);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #notPooled(verb: string): CudaIpcError {
    const found = `it is ${this.mechanism} memory`;
    return new CudaIpcError("UNSUPPORTED", `Cannot ${verb} "${this.label}" as memory of a pool: ${found}`);
  }

  #checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot use "${this.label}": it was closed`);
  }

  #checkWritable(): void {
    if (this.access === "read-write") return;
    throw new CudaIpcError("READ_ONLY", `Cannot write to "${this.label}": it was opened for reading`);
  }
}
