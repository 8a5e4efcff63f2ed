/** A queue of work on a device, done in order and apart from all other streams. */
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { DriverStream } from "../driver/gpu-driver.js";
import { waitUntil } from "./adaptive-wait.js";
import type { Device } from "./device.js";

/** What work that was enqueued needs until it is done. */
interface Holdable {
  retain(): unknown;
  release(): void;
}

export class Stream {
  readonly device: Device;
  readonly #handle: DriverStream;
  readonly #held = new Set<Holdable>();
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

  /** The driver's own handle, for calls on the driver. */
  get handle(): DriverStream {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot use a stream of ${this.device.name}: it was closed`);
    return this.#handle;
  }

  /** Whether all work given so far is done. Throws what earlier work failed with. */
  isIdle(): boolean {
    const idle = this.device.driver.isIdle(this.handle);
    if (idle) this.#letGo();
    return idle;
  }

  /**
   * Keeps something until this stream is next seen idle (`isIdle`, `synchronize`) or closed; not for users.
   * WHY not until the work is done: that would need somebody who keeps asking.
   */
  hold(resource: Holdable): void {
    if (this.#held.has(resource)) return;
    resource.retain();
    this.#held.add(resource);
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
    const releases = [() => this.device.driver.destroyStream(this.#handle), () => this.#letGo()];
    releaseAll([...releases, () => this.device.release()]);
  }

  #letGo(): void {
    const held = [...this.#held];
    this.#held.clear();
    releaseAll(held.map((resource) => () => resource.release()));
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
