/** A loaded kernel of a module, ready to launch. */
import { CudaIpcError } from "../../base/errors.js";
import { type Check, integer, optionsOf } from "../../base/option-checks.js";
import { RefCounted } from "../../base/ref-counted.js";
import { releaseAll } from "../../base/scope.js";
import { shownValue } from "../../base/shown-value.js";
import type {
  Dimensions,
  DriverKernel,
  DriverModule,
  KernelParameter,
} from "../../driver/kernel-calls.js";
import type { Device } from "../device.js";
import { aStream } from "../option-checks.js";
import type { Stream } from "../order/stream.js";
import { encodeArguments, type KernelArgument } from "./kernel-arguments.js";

/**
 * A loaded module and a refcount of what needs it: the `Module`, and streams that may still run its
 * kernels.
 */
export class LoadedModule extends RefCounted {
  readonly device: Device;
  readonly handle: DriverModule;
  /** False after the `Module` was closed. */
  open = true;

  constructor(device: Device, handle: DriverModule) {
    super();
    device.retain();
    this.device = device;
    this.handle = handle;
  }

  protected get countedAs(): string {
    return "a module";
  }

  protected onLastRelease(): void {
    releaseAll([() => this.device.driver.unloadModule(this.handle), () => this.device.release()]);
  }
}

/** Sizes in x, y and z. Missing ones are 1; a single number is x. */
export type Extent = number | readonly [x: number, y?: number, z?: number];

/** Its numbers are checked where they are used. */
const anExtent: Check = (option, value) => {
  if (typeof value !== "number") anArray(option, value);
};

const anArray: Check = (option, value) => {
  if (!Array.isArray(value))
    throw new TypeError(`${option} must be an array, not ${shownValue(value)}`);
};

export interface KernelLaunchOptions {
  /** Number of blocks. */
  readonly grid: Extent;
  /** Threads per block. */
  readonly block: Extent;
  /** One argument per parameter of the kernel, in order. */
  readonly args: readonly KernelArgument[];
  readonly stream: Stream;
  /** Bytes of `extern __shared__` memory per block; 0 by default. */
  readonly sharedBytes?: number;
}

const checkLaunch = optionsOf<KernelLaunchOptions>(
  "launch()",
  { grid: anExtent, block: anExtent, args: anArray, stream: aStream, sharedBytes: integer(0) },
  { needs: ["grid", "block", "args", "stream"] },
);

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

  /**
   * Sizes of the parameters. Undefined if the driver is older than CUDA 12.4 and the code is not
   * PTX.
   */
  get parameters(): readonly KernelParameter[] | undefined {
    return this.#handle.parameters;
  }

  /** Maximum threads per block, given the registers and shared memory that this kernel needs. */
  get threadsPerBlockMax(): number {
    return this.#handle.threadsPerBlockMax;
  }

  /**
   * Enqueues the kernel on a stream and returns. The arguments are copied first.
   *
   * Nothing checks addresses. If the kernel fails while it runs, for example by an invalid address,
   * the stream's `synchronize` throws DEVICE_LOST: this process has lost its context on the device,
   * and only a new process gets another.
   *
   * The module and memory passed as DeviceBuffer or DeviceArray stay loaded and mapped until the
   * stream is next seen idle, even if you close them before. Memory passed by address only must be
   * kept by the caller until then.
   * @throws KERNEL_ARGUMENTS if the number or sizes of the arguments do not match the kernel's;
   * TypeError, RangeError, CLOSED
   */
  launch(options: KernelLaunchOptions): void {
    checkLaunch(options);
    const { stream, args, sharedBytes = 0 } = options;
    const { device } = this.#module;
    const attempt = `launch ${this.name}`;
    if (!this.#module.open)
      throw new CudaIpcError("CLOSED", `Cannot ${attempt}: its module was closed`);
    if (stream.device !== device) {
      throw new TypeError(
        `Cannot ${attempt}: its module and the stream are of two devices (or one that was opened ` +
          `twice)`,
      );
    }
    const launch = {
      grid: dimensions("grid", options.grid),
      block: dimensions("block", options.block),
      sharedBytes,
    };
    const { bytes, buffers } = encodeArguments(attempt, args, device);
    // The launched kernel needs both, so they are held first. If the launch fails, they are
    // released when the stream is next seen idle.
    stream.hold(this.#module);
    for (const buffer of buffers) buffer.enqueue("read", stream, () => {});
    device.driver.launchKernel(stream.handle, this.#handle, launch, bytes);
  }
}

function dimensions(what: string, extent: Extent): Dimensions {
  const [x, y = 1, z = 1, ...rest] = typeof extent === "number" ? [extent] : [...extent];
  if (x === undefined || rest.length > 0)
    throw new TypeError(`${what} must be a number or 1 to 3 of them`);
  return [x, y, z];
}
