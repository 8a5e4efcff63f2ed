/** The seam's part on code of the caller's: modules, kernels, launches. CUDA alone has them; the host device throws UNSUPPORTED. */
import type { DriverStream } from "./gpu-driver.js";

/** Code that was loaded onto a device. Ended by `unloadModule`. */
export interface DriverModule {
  readonly ordinal: number;
  /** The kernels that the code declares; undefined where it does not tell (a fatbin). */
  readonly kernelNames: readonly string[] | undefined;
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
   * Loads PTX (text), a cubin or a fatbin; the driver compiles PTX within this call. Call it before any stream waits for anything.
   * @throws INVALID_MODULE with the driver's own log, LIMIT_EXCEEDED
   */
  loadModule(ordinal: number, image: Uint8Array): DriverModule;
  /** The caller has seen to it that no stream still runs its kernels. */
  unloadModule(module: DriverModule): void;
  /**
   * Finds a kernel and loads it. Also to be called before any stream waits: drivers load the code of a kernel here and not with its
   * module (since CUDA 12.2, unless CUDA_MODULE_LOADING=EAGER), and a launch after it loads nothing.
   * @throws KERNEL_NOT_FOUND, with the names of those that are there
   */
  findKernel(module: DriverModule, name: string): DriverKernel;
  /**
   * Enqueues a kernel. Each argument is its bytes; they are copied before this returns. Where the kernel's parameters are not known,
   * the arguments are passed unchecked, and parameters beyond them are zero.
   * @throws KERNEL_ARGUMENTS where their count or sizes are not the kernel's, RangeError for sizes beyond the device's
   */
  launchKernel(stream: DriverStream, kernel: DriverKernel, options: LaunchOptions, args: readonly Uint8Array[]): void;
}
