/** A queue of work on a device, done in order and apart from all other streams. */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { DriverStream } from "../driver/gpu-driver.js";
import { waitUntil } from "./adaptive-wait.js";
import type { Device } from "./device.js";

export class Stream {
  readonly device: Device;
  readonly #handle: DriverStream;
  #open = true;

  /** Use `device.createStream()`. */
  constructor(device: Device) {
    this.device = device;
    this.#handle = acquireIn((scope) => {
      device.retain();
      scope.defer(() => device.release());
      return device.driver.createStream(device.ordinal);
    });
  }

  get open(): boolean {
    return this.#open;
  }

  /** The driver's own handle, for calls on the driver. */
  get handle(): DriverStream {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot use a stream of ${this.device.name}: it was closed`);
    return this.#handle;
  }

  /** Whether all work given so far is done. Throws what earlier work failed with. */
  isIdle(): boolean {
    return this.device.driver.isIdle(this.handle);
  }

  /**
   * Waits until all work given so far is done; the work itself goes on when the wait is given up.
   * @throws TIMEOUT, ABORTED, DEVICE_LOST
   */
  async synchronize(options: WaitOptions = {}): Promise<void> {
    const deadline = new Deadline(`synchronize a stream of ${this.device.name}`, options, Number.POSITIVE_INFINITY);
    await waitUntil(() => this.isIdle(), deadline);
  }

  /** Ends the stream; the caller has seen to it that it is idle. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    releaseAll([() => this.device.driver.destroyStream(this.#handle), () => this.device.release()]);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
