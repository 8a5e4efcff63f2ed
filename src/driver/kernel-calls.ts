/**
 * The kernel calls of the seam: the caller's own code as modules, kernels and launches.
 * Only `cuda` has them; `host` throws UNSUPPORTED.
 */
import type { DriverStream } from "./stream-calls.js";

/** Code loaded onto a device. Ended by `unloadModule`. */
export interface DriverModule {
  readonly ordinal: number;
  /** The kernels that the code declares; undefined if it does not tell (a fatbin). */
  readonly kernelNames: readonly string[] | undefined;
}

/** Usable while its module is loaded. */
export interface DriverKernel {
  readonly name: string;
  /** Undefined if neither the driver nor the code tells. */
  readonly parameters: readonly KernelParameter[] | undefined;
  readonly threadsPerBlockMax: number;
}

/** Where a parameter lies among the packed arguments. */
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
   * Loads PTX (text), a cubin or a fatbin. The driver compiles PTX within this call. Call it before
   * any stream waits.
   * @throws INVALID_MODULE with the driver's own log, LIMIT_EXCEEDED
   */
  loadModule(ordinal: number, image: Uint8Array): DriverModule;
  /** Unloads a module. The caller makes sure that no stream still runs its kernels. */
  unloadModule(module: DriverModule): void;
  /**
   * Finds a kernel and loads its code. Call it before any stream waits: since CUDA 12.2 drivers
   * load a kernel here and not with its module (unless CUDA_MODULE_LOADING=EAGER). A later launch
   * loads nothing.
   * @throws KERNEL_NOT_FOUND, with the names of the module's kernels
   */
  findKernel(module: DriverModule, name: string): DriverKernel;
  /**
   * Enqueues a kernel. Each argument is its bytes, copied before this returns. If the parameters
   * are not known, arguments are passed unchecked and missing ones are zero.
   * @throws KERNEL_ARGUMENTS if count or sizes are wrong, RangeError for sizes beyond the device's
   */
  launchKernel(
    stream: DriverStream,
    kernel: DriverKernel,
    options: LaunchOptions,
    args: readonly Uint8Array[],
  ): void;
}
