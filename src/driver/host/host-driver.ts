/**
 * The seam's implementation without a GPU: one device whose memory is real shared memory of this machine, with the CPU doing the work.
 * It is what runs where there is no GPU, and a device in its own right.
 */
import { cpus, release, totalmem } from "node:os";
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import type { Access } from "../../os/mapping.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type {
  DeviceFacts,
  DevicePointer,
  DriverMemory,
  DriverStream,
  FillPattern,
  GpuDriver,
  HostPointer,
  StagingMemory,
} from "../gpu-driver.js";
import { checkFill, checkWordAddress } from "../operation-checks.js";
import { availableBytes } from "./host-capacity.js";
import { HOST_GRANULARITY_BYTES, HostMemories } from "./host-memory.js";
import { copy, fill, waitWord, writeWord } from "./host-operations.js";
import { HostStream } from "./host-stream.js";

/**
 * The host device, ordinal 0. Its memory is allocated by the first touch of each page.
 * After `close()` every call throws CLOSED, and streams that were not destroyed have stopped.
 */
export function createHostDriver(): GpuDriver {
  return new HostDriver();
}

class HostDriver implements GpuDriver {
  readonly kind = "host";
  readonly mechanism = "memfd";
  readonly #memories = new HostMemories();
  readonly #streams = new Set<HostStream>();
  #open = true;

  deviceCount(): number {
    this.#use();
    return 1;
  }

  describeDevice(ordinal: number): DeviceFacts {
    this.#use(ordinal);
    const version = /^\d+\.\d+/.exec(release())?.[0] ?? release();
    return {
      ordinal,
      uuid: "host",
      name: cpus()[0]?.model ?? "host",
      totalBytes: totalmem(),
      granularityBytes: HOST_GRANULARITY_BYTES,
      driverVersion: `Linux ${version}`,
      computeCapability: undefined,
      attributes: {},
    };
  }

  memoryInfo(ordinal: number): { readonly freeBytes: number; readonly totalBytes: number } {
    this.#use(ordinal);
    return { freeBytes: availableBytes(), totalBytes: totalmem() };
  }

  createMemory(ordinal: number, byteLength: number): DriverMemory {
    this.#use(ordinal);
    return this.#memories.create(byteLength);
  }

  exportMemory(memory: DriverMemory): OwnedFd {
    this.#use();
    return this.#memories.export(memory);
  }

  importMemory(ordinal: number, fd: OwnedFd, byteLength: number): DriverMemory {
    this.#use(ordinal);
    return this.#memories.import(fd, byteLength);
  }

  releaseMemory(memory: DriverMemory): void {
    this.#use();
    this.#memories.release(memory);
  }

  mapMemory(memory: DriverMemory, access: Access): DevicePointer {
    this.#use();
    return this.#memories.map(memory, access);
  }

  unmapMemory(ordinal: number, pointer: DevicePointer): void {
    this.#use(ordinal);
    this.#memories.unmap(pointer);
  }

  allocateStaging(ordinal: number, byteLength: number): StagingMemory {
    this.#use(ordinal);
    return this.#memories.allocateStaging(byteLength);
  }

  freeStaging(staging: StagingMemory): void {
    this.#use();
    this.#memories.freeStaging(staging);
  }

  registerHostMemory(ordinal: number, pointer: HostPointer, byteLength: number, access: Access): DevicePointer {
    this.#use(ordinal);
    return this.#memories.register(pointer, byteLength, access);
  }

  unregisterHostMemory(ordinal: number, pointer: HostPointer): void {
    this.#use(ordinal);
    this.#memories.unregister(pointer);
  }

  createStream(ordinal: number): DriverStream {
    this.#use(ordinal);
    const stream = new HostStream();
    this.#streams.add(stream);
    return stream;
  }

  /** Work that was not done yet, a pending wait included, is given up. */
  destroyStream(stream: DriverStream): void {
    const queue = this.#own(stream);
    this.#streams.delete(queue);
    queue.destroy();
  }

  isIdle(stream: DriverStream): boolean {
    return this.#own(stream).isIdle();
  }

  copyToDevice(stream: DriverStream, to: DevicePointer, from: HostPointer, byteLength: number): void {
    this.#copy(stream, to, from, byteLength);
  }

  copyToHost(stream: DriverStream, to: HostPointer, from: DevicePointer, byteLength: number): void {
    this.#copy(stream, to, from, byteLength);
  }

  copyOnDevice(stream: DriverStream, to: DevicePointer, from: DevicePointer, byteLength: number): void {
    this.#copy(stream, to, from, byteLength);
  }

  fill(stream: DriverStream, to: DevicePointer, pattern: FillPattern, count: number): void {
    const queue = this.#own(stream);
    checkFill(to, pattern, count);
    if (count === 0) return;
    this.#memories.check(to, count * pattern.elementBytes, "read-write");
    queue.enqueue(fill(this.#memories, to, pattern, count));
  }

  waitWord(stream: DriverStream, pointer: DevicePointer, value: bigint): void {
    const queue = this.#own(stream);
    checkWordAddress(pointer);
    this.#memories.check(pointer, 8, "read");
    queue.enqueue(waitWord(this.#memories, pointer, value));
  }

  writeWord(stream: DriverStream, pointer: DevicePointer, value: bigint): void {
    const queue = this.#own(stream);
    checkWordAddress(pointer);
    this.#memories.check(pointer, 8, "read-write");
    queue.enqueue(writeWord(this.#memories, pointer, value));
  }

  cpuAddress(pointer: DevicePointer): HostPointer {
    this.#use();
    this.#memories.check(pointer, 1, "read");
    return pointer;
  }

  close(): void {
    this.#open = false;
    for (const stream of this.#streams) stream.abandon();
    this.#streams.clear();
  }

  #copy(stream: DriverStream, to: bigint, from: bigint, byteLength: number): void {
    const queue = this.#own(stream);
    if (checkInteger("Copy: byteLength", byteLength, 0) === 0) return;
    this.#memories.check(to, byteLength, "read-write");
    this.#memories.check(from, byteLength, "read");
    queue.enqueue(copy(this.#memories, to, from, byteLength));
  }

  #own(stream: DriverStream): HostStream {
    this.#use();
    if (!(stream instanceof HostStream)) throw new TypeError("Cannot use a stream of another driver");
    return stream;
  }

  #use(ordinal = 0): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", "Cannot use the host driver: it was closed");
    if (checkInteger("ordinal", ordinal, 0) === 0) return;
    throw new CudaIpcError("DEVICE_NOT_FOUND", `Cannot find host device ${ordinal}: there is only device 0`);
  }
}
