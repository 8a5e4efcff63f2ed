/** Code loaded on a device from PTX, a cubin or a fatbin, with its kernels. */
import { CudaIpcError } from "../../base/errors.js";
import { arrayOfStrings, aString, optionsOf } from "../../base/option-checks.js";
import { acquireIn } from "../../base/scope.js";
import type { DriverKernel } from "../../driver/kernel-calls.js";
import { checkDevice } from "../check-arguments.js";
import type { Device } from "../device.js";
import { Kernel, LoadedModule } from "./kernel.js";

export interface ModuleOptions {
  /** The name in error messages. */
  readonly label?: string;
  /**
   * The kernels to load with the module; all that the code declares by default. For a fatbin the
   * default is none, because its kernels are not known.
   */
  readonly kernels?: readonly string[];
}

const checkLoad = optionsOf<ModuleOptions>("Module.load()", {
  label: aString,
  kernels: arrayOfStrings,
});

export class Module {
  readonly device: Device;
  readonly label: string;
  readonly #loaded: LoadedModule;
  readonly #kernels = new Map<string, Kernel>();

  /** Takes ownership of the loaded code. */
  private constructor(loaded: LoadedModule, kernels: readonly DriverKernel[], label: string) {
    this.device = loaded.device;
    this.label = label;
    this.#loaded = loaded;
    for (const kernel of kernels) this.#kernels.set(kernel.name, new Kernel(loaded, kernel));
  }

  /**
   * Loads code and its kernels. Call it before any stream waits: loading may wait for all work on
   * the device, and never returns if a stream waits for a signal of this process.
   *
   * The call blocks the event loop. The driver compiles PTX within it, which takes milliseconds or
   * more per kernel. A cubin takes well under one millisecond.
   * @param image PTX as text or bytes, or a cubin or fatbin
   * @throws INVALID_MODULE with the driver's log, KERNEL_NOT_FOUND, UNSUPPORTED on the host device
   */
  static load(device: Device, image: string | Uint8Array, options: ModuleOptions = {}): Module {
    checkDevice(device);
    checkLoad(options);
    const bytes = typeof image === "string" ? new TextEncoder().encode(image) : image;
    return acquireIn((scope) => {
      const handle = scope.own(device.driver.loadModule(device.ordinal, bytes), (it) =>
        device.driver.unloadModule(it),
      );
      const names = options.kernels ?? handle.kernelNames ?? [];
      const kernels = names.map((name) => device.driver.findKernel(handle, name));
      return new Module(new LoadedModule(device, handle), kernels, options.label ?? "module");
    });
  }

  /**
   * The kernels that the code declares; undefined for a fatbin, which does not list them. C++ names
   * are mangled unless declared `extern "C"`.
   */
  get kernelNames(): readonly string[] | undefined {
    return this.#loaded.handle.kernelNames;
  }

  get open(): boolean {
    return this.#loaded.open;
  }

  /**
   * Returns the kernel with this name. If it was not loaded with the module, it is loaded now; then
   * the warnings of `load` apply.
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

  /**
   * Closes the module: its kernels cannot be launched any more. The code is unloaded once every
   * stream that ran its kernels was seen idle.
   */
  close(): void {
    if (!this.#loaded.open) return;
    this.#loaded.open = false;
    this.#loaded.release();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
