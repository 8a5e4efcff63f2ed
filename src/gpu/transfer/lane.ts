/**
 * One lane of a device, which copies a piece at a time. For host memory it copies directly. For GPU
 * memory it has its own stream and pinned staging memory.
 */
import { Deadline } from "../../base/deadline.js";
import { limits } from "../../base/limits.js";
import { Scope } from "../../base/scope.js";
import type {
  DevicePointer,
  DriverStream,
  GpuDriver,
  StagingMemory,
} from "../../driver/gpu-driver.js";
import { addressOf, copyMemory, viewAt } from "../../os/host-memory.js";
import { sparseReader } from "../../os/spared-holes.js";
import { waitUntil } from "../order/adaptive-wait.js";

export { spareHoles } from "../../os/spared-holes.js";

export interface Lane {
  /**
   * Copies the bytes, at most `limits.stagingBytes`, to the device. Resolves when they are there.
   */
  upload(to: DevicePointer, bytes: Uint8Array): Promise<void>;
  download(from: DevicePointer, bytes: Uint8Array): Promise<void>;
  /** As `upload`, but `fill` writes the bytes to staging memory. */
  uploadFrom(
    to: DevicePointer,
    byteLength: number,
    fill: (staging: Uint8Array) => Promise<void>,
  ): Promise<void>;
  /** As `download`, but to staging memory, which `take` may read until it resolves. */
  downloadTo(
    from: DevicePointer,
    byteLength: number,
    take: (staging: Uint8Array) => Promise<void>,
  ): Promise<void>;
  /** As `uploadFrom`, without a view: views of much memory keep the garbage collector busy. */
  uploadAt(
    to: DevicePointer,
    byteLength: number,
    fill: (staging: bigint) => Promise<void>,
  ): Promise<void>;
  /** As `downloadTo`, without a view. */
  downloadAt(
    from: DevicePointer,
    byteLength: number,
    take: (staging: bigint) => Promise<void>,
  ): Promise<void>;
  /** Memory of this lane with `limits.stagingBytes` bytes, allocated at the first use. */
  staging(): StagingMemory;
  close(): void;
}

const UNLIMITED = new Deadline("finish a copy", {}, Number.POSITIVE_INFINITY);

export function makeLane(driver: GpuDriver, ordinal: number): Lane {
  return driver.cpuVisible ? new DirectLane(driver, ordinal) : StagedLane.create(driver, ordinal);
}

/** For memory that the CPU sees: one copy, which the thread pool makes if it is long. */
class DirectLane implements Lane {
  readonly #driver: GpuDriver;
  readonly #ordinal: number;
  #staging: StagingMemory | undefined;

  constructor(driver: GpuDriver, ordinal: number) {
    this.#driver = driver;
    this.#ordinal = ordinal;
  }

  async upload(to: DevicePointer, bytes: Uint8Array): Promise<void> {
    await copyMemory(this.#address(to), addressOf(bytes), bytes.byteLength);
  }

  async download(from: DevicePointer, bytes: Uint8Array): Promise<void> {
    const address = this.#address(from);
    const read = sparseReader(address);
    if (read === undefined) await copyMemory(addressOf(bytes), address, bytes.byteLength);
    else await read(bytes);
  }

  async uploadFrom(
    to: DevicePointer,
    byteLength: number,
    fill: (staging: Uint8Array) => Promise<void>,
  ): Promise<void> {
    await fill(viewAt(this.#address(to), byteLength));
  }

  async downloadTo(
    from: DevicePointer,
    byteLength: number,
    take: (staging: Uint8Array) => Promise<void>,
  ): Promise<void> {
    const address = this.#address(from);
    const read = sparseReader(address);
    if (read === undefined) {
      await take(viewAt(address, byteLength));
      return;
    }
    const staging = this.staging().bytes.subarray(0, byteLength);
    await read(staging);
    await take(staging);
  }

  async uploadAt(
    to: DevicePointer,
    _byteLength: number,
    fill: (staging: bigint) => Promise<void>,
  ): Promise<void> {
    await fill(this.#address(to));
  }

  async downloadAt(
    from: DevicePointer,
    _byteLength: number,
    take: (staging: bigint) => Promise<void>,
  ): Promise<void> {
    await take(this.#address(from));
  }

  staging(): StagingMemory {
    this.#staging ??= this.#driver.allocateStaging(this.#ordinal, limits.stagingBytes);
    return this.#staging;
  }

  close(): void {
    if (this.#staging !== undefined) this.#driver.freeStaging(this.#staging);
  }

  #address(pointer: DevicePointer): bigint {
    const address = this.#driver.cpuAddress(pointer);
    if (address === undefined) throw new TypeError("a direct lane needs memory that the CPU sees");
    return address;
  }
}

/** Copies through pinned memory, which the GPU reads itself while the CPU fills another lane. */
class StagedLane implements Lane {
  readonly #driver: GpuDriver;
  readonly #stream: DriverStream;
  readonly #staging: StagingMemory;

  private constructor(driver: GpuDriver, stream: DriverStream, staging: StagingMemory) {
    this.#driver = driver;
    this.#stream = stream;
    this.#staging = staging;
  }

  static create(driver: GpuDriver, ordinal: number): StagedLane {
    const stream = driver.createStream(ordinal);
    try {
      return new StagedLane(driver, stream, driver.allocateStaging(ordinal, limits.stagingBytes));
    } catch (error) {
      driver.destroyStream(stream);
      throw error;
    }
  }

  async upload(to: DevicePointer, bytes: Uint8Array): Promise<void> {
    const copyIn = (staging: Uint8Array) =>
      copyMemory(addressOf(staging), addressOf(bytes), bytes.byteLength);
    await this.uploadFrom(to, bytes.byteLength, copyIn);
  }

  async download(from: DevicePointer, bytes: Uint8Array): Promise<void> {
    const copyOut = (staging: Uint8Array) =>
      copyMemory(addressOf(bytes), addressOf(staging), bytes.byteLength);
    await this.downloadTo(from, bytes.byteLength, copyOut);
  }

  async uploadFrom(
    to: DevicePointer,
    byteLength: number,
    fill: (staging: Uint8Array) => Promise<void>,
  ): Promise<void> {
    await fill(this.#staging.bytes.subarray(0, byteLength));
    this.#driver.copyToDevice(this.#stream, to, this.#staging.address, byteLength);
    await this.#finish();
  }

  async downloadTo(
    from: DevicePointer,
    byteLength: number,
    take: (staging: Uint8Array) => Promise<void>,
  ): Promise<void> {
    this.#driver.copyToHost(this.#stream, this.#staging.address, from, byteLength);
    await this.#finish();
    await take(this.#staging.bytes.subarray(0, byteLength));
  }

  async uploadAt(
    to: DevicePointer,
    byteLength: number,
    fill: (staging: bigint) => Promise<void>,
  ): Promise<void> {
    await this.uploadFrom(to, byteLength, () => fill(addressOf(this.#staging.bytes)));
  }

  async downloadAt(
    from: DevicePointer,
    byteLength: number,
    take: (staging: bigint) => Promise<void>,
  ): Promise<void> {
    await this.downloadTo(from, byteLength, () => take(addressOf(this.#staging.bytes)));
  }

  staging(): StagingMemory {
    return this.#staging;
  }

  close(): void {
    const scope = new Scope();
    scope.defer(() => this.#driver.destroyStream(this.#stream));
    scope.defer(() => this.#driver.freeStaging(this.#staging));
    scope.close();
  }

  // WHY: it waits for the copy even after the caller's timeout, because the GPU uses the staging
  // memory and the device memory until the copy is done. One piece takes well under a millisecond.
  async #finish(): Promise<void> {
    await waitUntil(() => this.#driver.isIdle(this.#stream), UNLIMITED, 0);
  }
}
