/** The driver's module and a count of those who need it: the Module itself, and streams that may still run its kernels. */
import { releaseAll } from "../base/scope.js";
import type { DriverModule } from "../driver/kernel-calls.js";
import type { Device } from "./device.js";

export class LoadedModule {
  readonly device: Device;
  readonly handle: DriverModule;
  /** Whether its owner has not closed it yet. */
  open = true;
  #users = 1;

  /** Takes over the driver's module. */
  constructor(device: Device, handle: DriverModule) {
    device.retain();
    this.device = device;
    this.handle = handle;
  }

  retain(): void {
    this.#users += 1;
  }

  release(): void {
    this.#users -= 1;
    if (this.#users > 0) return;
    releaseAll([() => this.device.driver.unloadModule(this.handle), () => this.device.release()]);
  }
}
