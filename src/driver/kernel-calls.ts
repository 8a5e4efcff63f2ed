/** The seam's part on code of the caller's: modules, kernels, launches. CUDA alone has them; the host device throws UNSUPPORTED. */
import type { DriverStream } from "./gpu-driver.js";

/** Code that was loaded onto a device. Ended by `unloadModule`. */
export interface DriverModule {
  readonly ordinal: number;
}

/** Usable for as long as its module is. */
export interface DriverKernel {
  readonly name: string;
  /** Where each parameter lies among the packed arguments; undefined where neither the driver nor the code tells. */
  readonly parameters: readonly KernelParameter[] | undefined;
  readonly threadsPerBlockMax: number;
}

export interface KernelParameter {
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** Sizes in x, y and z. */
export type Dimensions = readonly [number, number, number];

export interface LaunchOptions {
  readonly grid: Dimensions;
  readonly block: Dimensions;
  readonly sharedBytes: number;
}

export interface KernelCalls {
  /**
   * Loads PTX (text) or a cubin, all of it at once: a kernel that is loaded at its first launch could wait for streams that wait for it.
   * @throws INVALID_MODULE with the driver's own log
   */
  loadModule(ordinal: number, image: Uint8Array): DriverModule;
  /** The caller has seen to it that no stream still runs its kernels. */
  unloadModule(module: DriverModule): void;
  /** @throws KERNEL_NOT_FOUND */
  findKernel(module: DriverModule, name: string): DriverKernel;
  /**
   * Enqueues a kernel. Each argument is its bytes; they are copied before this returns.
   * @throws KERNEL_ARGUMENTS where their count or sizes are not the kernel's, RangeError for sizes beyond the device's
   */
  launchKernel(stream: DriverStream, kernel: DriverKernel, options: LaunchOptions, args: readonly Uint8Array[]): void;
}
