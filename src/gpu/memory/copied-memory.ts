/**
 * A copy of device memory, for the access `copy` if the device cannot copy on write. The device
 * copies on a stream of its own. Streams that use the copy wait for it, and so does the CPU.
 */
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { DriverEvent } from "../../driver/event-calls.js";
import type { Mechanism } from "../../driver/gpu-driver.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { waitUntil } from "../order/adaptive-wait.js";
import type { Stream } from "../order/stream.js";
import { MappedMemory, type MemoryDescriptor } from "./mapped-memory.js";
import { allocateMemory } from "./mechanisms.js";

export class CopiedMemory extends MappedMemory {
  readonly mechanism: Mechanism;
  readonly imported = true;
  readonly #own: MappedMemory;
  readonly #stream: Stream;
  readonly #copied: DriverEvent;

  private constructor(own: MappedMemory, stream: Stream, copied: DriverEvent) {
    super(own.device, own.pointer, own.byteLength);
    this.mechanism = own.mechanism;
    this.#own = own;
    this.#stream = stream;
    this.#copied = copied;
  }

  /** Allocates memory and begins to copy. @throws OUT_OF_MEMORY */
  static begin(source: MappedMemory, byteOffset: number, byteLength: number): CopiedMemory {
    const { device } = source;
    const { driver, ordinal } = device;
    return acquireIn((scope) => {
      const own = scope.own(allocateMemory(device, byteLength, {}), (it) => it.release());
      const copied = scope.own(driver.createEvent(ordinal), (it) => driver.destroyEvent(it));
      const stream = scope.own(device.createStream(), (it) => it.close());
      // The stream keeps both, whatever is closed while it copies.
      stream.hold(source);
      stream.hold(own);
      if (byteLength > 0)
        driver.copyOnDevice(stream.handle, own.pointer, source.pointerAt(byteOffset), byteLength);
      driver.recordEvent(copied, stream.handle);
      return new CopiedMemory(own, stream, copied);
    });
  }

  override ready(deadline: Deadline): Promise<void> | undefined {
    return this.#isCopied() ? undefined : waitUntil(() => this.#isCopied(), deadline);
  }

  override checkUsableOn(_label: string, stream: Stream): void {
    if (!this.#isCopied()) this.device.driver.waitEvent(stream.handle, this.#copied);
  }

  describe(label: string): MemoryDescriptor {
    throw notShared(label);
  }

  exportFd(label: string): OwnedFd {
    throw notShared(label);
  }

  protected unmap(): void {
    releaseAll([() => this.#own.release(), () => this.#end()]);
  }

  #isCopied(): boolean {
    if (!this.#stream.open) return true;
    if (!this.device.driver.isEventDone(this.#copied)) return false;
    this.#stream.close();
    return true;
  }

  /** WHY the event so late: streams may have waited for it until now, and they held this memory. */
  #end(): void {
    const { driver } = this.device;
    const end = () =>
      releaseAll([() => this.#stream.close(), () => driver.destroyEvent(this.#copied)]);
    let isCopied = true;
    try {
      isCopied = this.#isCopied();
    } catch {
      // The device is lost, and copies no more.
    }
    if (isCopied) {
      end();
      return;
    }
    const forever = new Deadline("end a copy", {}, Number.POSITIVE_INFINITY);
    void this.device.run(() => waitUntil(() => this.#isCopied(), forever).then(end, end));
  }
}

function notShared(label: string): CudaIpcError {
  const found = 'it is a copy of this process alone, opened with access "copy"';
  return new CudaIpcError("UNSUPPORTED", `Cannot share "${label}": ${found}`);
}
