/** Code on a device: PTX, a cubin or a fatbin, with its kernels loaded before they are launched. */
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import type { DriverKernel } from "../driver/kernel-calls.js";
import type { Device } from "./device.js";
import { Kernel } from "./kernel.js";
import { LoadedModule } from "./loaded-module.js";

export interface ModuleOptions {
  /** The name in error messages. */
  readonly label?: string;
  /** The kernels to load at once; by default all that the code declares. Of a fatbin they are not known. */
  readonly kernels?: readonly string[];
}

export class Module {
  readonly device: Device;
  readonly label: string;
  readonly #loaded: LoadedModule;
  readonly #kernels = new Map<string, Kernel>();

  /** Takes over what is loaded. */
  private constructor(loaded: LoadedModule, kernels: readonly DriverKernel[], label: string) {
    this.device = loaded.device;
    this.label = label;
    this.#loaded = loaded;
    for (const kernel of kernels) this.#kernels.set(kernel.name, new Kernel(loaded, kernel));
  }

  /**
   * Loads code and its kernels. Do it before any stream waits for anything: loading may wait for all work on the device, and a
   * kernel that is loaded while a stream waits for this process can wait for ever. For PTX the driver compiles within this
   * call, some milliseconds and more for each kernel, during which the event loop stands still; a cubin takes well under one.
   * @param image PTX as text or bytes, or a cubin or fatbin
   * @throws INVALID_MODULE with the driver's log, KERNEL_NOT_FOUND, UNSUPPORTED on the host device
   */
  static load(device: Device, image: string | Uint8Array, options: ModuleOptions = {}): Module {
    const bytes = typeof image === "string" ? new TextEncoder().encode(image) : image;
    return acquireIn((scope) => {
      const handle = scope.own(device.driver.loadModule(device.ordinal, bytes), (it) => device.driver.unloadModule(it));
      const names = options.kernels ?? handle.kernelNames ?? [];
      const kernels = names.map((name) => device.driver.findKernel(handle, name));
      return new Module(new LoadedModule(device, handle), kernels, options.label ?? "module");
    });
  }

  /** The kernels that the code declares; undefined where it does not tell (a fatbin). C++ names are mangled unless `extern "C"`. */
  get kernelNames(): readonly string[] | undefined {
    return this.#loaded.handle.kernelNames;
  }

  get open(): boolean {
    return this.#loaded.open;
  }

  /**
   * A kernel by its name. One that was not loaded with the module is loaded here; what is said of `load` holds then.
   * @throws KERNEL_NOT_FOUND, CLOSED
   */
  kernel(name: string): Kernel {
    if (!this.open) throw new CudaIpcError("CLOSED", `Cannot use "${this.label}": it was closed`);
    let kernel = this.#kernels.get(name);
    if (kernel === undefined) {
      kernel = new Kernel(this.#loaded, this.device.driver.findKernel(this.#loaded.handle, name));
      this.#kernels.set(name, kernel);
    }
    return kernel;
  }

  /** From here on nothing of it is launched. The code is unloaded once every stream that was given its kernels was seen idle. */
  close(): void {
    if (!this.#loaded.open) return;
    this.#loaded.open = false;
    this.#loaded.release();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
