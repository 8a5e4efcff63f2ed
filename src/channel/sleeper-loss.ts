/**
 * Wakes one end of a channel if its device is lost while it sleeps: the bell that it waits for may never ring then.
 * WHY only under MPS: elsewhere a context is lost by this process's own work, which tells whoever waits for it.
 */
import type { Device } from "../gpu/device.js";

export class SleeperLoss {
  readonly close: () => void;
  #error: Error | undefined;

  constructor(device: Device, wake: () => void) {
    this.close = device.sharesContext
      ? device.onLost((error) => {
          this.#error = error;
          wake();
        })
      : () => {};
  }

  /** @throws DEVICE_LOST if the device was lost */
  check(): void {
    if (this.#error !== undefined) throw this.#error;
  }
}
