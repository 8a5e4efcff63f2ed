/**
 * Device memory that this process has an address for, however it came by it, and a count of those who use it: open buffers, transfers
 * under way, views of JavaScript's. It ends with the last of them, and keeps its device from ending before.
 */
import { checkRange, formatBytes } from "../base/bytes.js";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { DevicePointer, DriverMemory, Mechanism } from "../driver/gpu-driver.js";
import { viewAt } from "../os/host-memory.js";
import type { Access } from "../os/mapping.js";
import type { Device } from "./device.js";
import type { ExportMark } from "./export-marks.js";
import type { PooledMemory } from "./pooled-memory.js";

const collectedViews = new FinalizationRegistry<MappedMemory>((memory) => {
  try {
    memory.release();
  } catch (error) {
    process.emitWarning(`A view was collected, and its memory could not be unmapped: ${String(error)}`, "CudaIpcLeak");
  }
});

export interface MappedRange {
  readonly pointer: DevicePointer;
  readonly byteLength: number;
  readonly mechanism: Mechanism;
  /** Ends it; called once. */
  readonly unmap: () => void;
  /** Of memory of a pool: what its buffers ask of the pool. */
  readonly pooled?: PooledMemory;
  /** Of memory that can be exported by handle. */
  readonly mark?: ExportMark;
}

export class MappedMemory {
  readonly device: Device;
  readonly pointer: DevicePointer;
  readonly mechanism: Mechanism;
  readonly mark: ExportMark | undefined;
  readonly pooled: PooledMemory | undefined;
  readonly #unmap: () => void;
  readonly #onUnmapped: (() => void)[] = [];
  #byteLength: number;
  #users = 1;

  /** Takes over the range; the first user is the caller. */
  constructor(device: Device, range: MappedRange) {
    device.retain();
    this.device = device;
    this.pointer = range.pointer;
    this.mechanism = range.mechanism;
    this.pooled = range.pooled;
    this.mark = range.mark;
    this.#byteLength = range.byteLength;
    this.#unmap = range.unmap;
  }

  /** Maps memory as a whole; the first user is the caller. */
  static map(device: Device, memory: DriverMemory, access: Access): MappedMemory {
    const { driver, ordinal } = device;
    return acquireIn((scope) => {
      const pointer = driver.mapMemory(memory, access);
      const unmap = () => driver.unmapMemory(ordinal, pointer);
      scope.defer(unmap);
      return new MappedMemory(device, { pointer, byteLength: memory.byteLength, mechanism: driver.mechanism, unmap });
    });
  }

  get byteLength(): number {
    return this.#byteLength;
  }

  /** From here on there is more of it at the same address. */
  grownTo(byteLength: number): void {
    this.#byteLength = byteLength;
  }

  /** Counts one more user, who calls `release` once. */
  retain(): this {
    if (this.#users === 0) throw new CudaIpcError("CLOSED", "Cannot use memory: it was unmapped");
    this.#users += 1;
    return this;
  }

  release(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    const release = () => this.device.release();
    // WHY apart: what has no listeners, as memory of pools that comes and goes, is given back the short way.
    if (this.#onUnmapped.length === 0) releaseAll([this.#unmap, release]);
    else releaseAll([...this.#onUnmapped.splice(0), this.#unmap, release]);
  }

  /** Called once when the last user is gone. */
  onUnmapped(listener: () => void): void {
    this.#onUnmapped.push(listener);
  }

  pointerAt(byteOffset: number): DevicePointer {
    return byteOffset === 0 ? this.pointer : this.pointer + BigInt(byteOffset);
  }

  /**
   * The memory as bytes of this process, for work that ends while it is in use.
   * @throws UNSUPPORTED on a GPU, whose memory the CPU does not see; LIMIT_EXCEEDED for more than `limits.viewBytesMax`
   */
  window(label: string, byteOffset: number, byteLength: number): Uint8Array {
    checkRange(`View of "${label}"`, byteOffset, byteLength, this.byteLength);
    const address = this.device.driver.cpuAddress(this.pointer);
    if (address === undefined) {
      throw new CudaIpcError("UNSUPPORTED", `Cannot view "${label}": it is memory of ${this.device.name}; use read()`);
    }
    if (byteLength > limits.viewBytesMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot view ${formatBytes(byteLength)} of "${label}" at once: the limit (viewBytesMax) is ` +
          `${formatBytes(limits.viewBytesMax)}; view parts of it`,
      );
    }
    return viewAt(address + BigInt(byteOffset), byteLength);
  }

  /** As `window`, and the memory stays mapped for as long as the bytes are reachable. */
  view(label: string, byteOffset: number, byteLength: number): Uint8Array {
    const bytes = this.window(label, byteOffset, byteLength);
    collectedViews.register(bytes.buffer, this.retain());
    return bytes;
  }
}
