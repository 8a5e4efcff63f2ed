/** A function of a module that runs on the GPU, found and loaded, ready to be launched. */
import { CudaIpcError } from "../base/errors.js";
import type { Dimensions, DriverKernel, KernelParameter } from "../driver/kernel-calls.js";
import { encodeArguments, type KernelArgument } from "./kernel-arguments.js";
import type { LoadedModule } from "./loaded-module.js";
import type { Stream } from "./stream.js";

/** Sizes in x, y and z; what is left out is 1. A number is x. */
export type Extent = number | readonly [x: number, y?: number, z?: number];

export interface KernelLaunchOptions {
  /** Blocks. */
  readonly grid: Extent;
  /** Threads of each block. */
  readonly block: Extent;
  /** One for each parameter of the kernel, in order. */
  readonly args: readonly KernelArgument[];
  readonly stream: Stream;
  /** Bytes of `extern __shared__` memory for each block; 0 by default. */
  readonly sharedBytes?: number;
}

export class Kernel {
  readonly name: string;
  readonly #module: LoadedModule;
  readonly #handle: DriverKernel;

  /** Use `module.kernel(name)`. */
  constructor(module: LoadedModule, handle: DriverKernel) {
    this.name = handle.name;
    this.#module = module;
    this.#handle = handle;
  }

  /** Sizes of the parameters; undefined where neither the driver (before CUDA 12.4) nor the code (a cubin) tells. */
  get parameters(): readonly KernelParameter[] | undefined {
    return this.#handle.parameters;
  }

  /** Threads of one block at most, with the registers and the shared memory that this kernel needs. */
  get threadsPerBlockMax(): number {
    return this.#handle.threadsPerBlockMax;
  }

  /**
   * Enqueues the kernel on a stream and returns; the arguments are copied before. What it fails with while it runs is thrown by
   * the stream (`synchronize`), as DEVICE_LOST: a kernel that uses an address outside of its memory ends this process's context on the
   * device, and only a new process gets another. Nothing checks addresses on the way.
   *
   * Memory that is given as DeviceBuffer or DeviceArray, and the module, stay until the stream is next seen idle, also when they are
   * closed before. Memory that is given by its address alone has to be kept by the caller until then.
   * @throws KERNEL_ARGUMENTS where number or sizes of the arguments are not the kernel's; TypeError, RangeError, CLOSED
   */
  launch(options: KernelLaunchOptions): void {
    const { stream, args, sharedBytes = 0 } = options;
    const { device } = this.#module;
    const attempt = `launch ${this.name}`;
    if (!this.#module.open) throw new CudaIpcError("CLOSED", `Cannot ${attempt}: its module was closed`);
    if (stream.device !== device) {
      throw new TypeError(
        `Cannot ${attempt}: its module and the stream are of two devices (or one that was opened twice)`,
      );
    }
    const launch = { grid: dimensions("grid", options.grid), block: dimensions("block", options.block), sharedBytes };
    const { bytes, buffers } = encodeArguments(attempt, args, device);
    // WHY before the launch: from then on both are needed. Where it fails they are let go of with the next work that is done.
    stream.hold(this.#module);
    for (const buffer of buffers) buffer.enqueue("read", stream, () => {});
    device.driver.launchKernel(stream.handle, this.#handle, launch, bytes);
  }
}

function dimensions(what: string, extent: Extent): Dimensions {
  const [x, y = 1, z = 1, ...rest] = typeof extent === "number" ? [extent] : [...extent];
  if (x === undefined || rest.length > 0) throw new TypeError(`${what} must be a number or 1 to 3 of them`);
  return [x, y, z];
}
