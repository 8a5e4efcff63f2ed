/**
 * Modules, their kernels and launches.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
 *
 * Trap: a kernel whose code is loaded by its first launch may wait for streams that wait for it. `findKernel` loads it before.
 */
import { CudaError, CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import { addressOf } from "../../os/host-memory.js";
import type { DriverStream } from "../gpu-driver.js";
import type { DriverKernel, DriverModule, KernelCalls, KernelParameter, LaunchOptions } from "../kernel-calls.js";
import { type ArgumentBlock, checkBlock } from "./argument-block.js";
import type { CudaParts } from "./cuda-driver.js";
import { ArgumentScratch, checkArguments, checkLaunch, type LaunchLimits, readLaunchLimits } from "./cuda-launch.js";
import type { CudaSession } from "./cuda-session.js";
import type { CudaStream, CudaStreams } from "./cuda-stream.js";
import { BLOCK_THREADS } from "./kernels/grid-loop.js";
import { readModuleImage } from "./module-image.js";
import type { KernelTable } from "./ptx-entries.js";

class CudaModule implements DriverModule {
  readonly ordinal: number;
  readonly handle: bigint;
  readonly kernels: KernelTable | undefined;
  unloaded = false;

  constructor(ordinal: number, handle: bigint, kernels: KernelTable | undefined) {
    this.ordinal = ordinal;
    this.handle = handle;
    this.kernels = kernels;
  }

  get kernelNames(): readonly string[] | undefined {
    return this.kernels === undefined ? undefined : [...this.kernels.keys()];
  }
}

class CudaKernel implements DriverKernel {
  /** Of the last `launchOwn`, which were found in order. */
  ownSizes: LaunchOptions | undefined;
  readonly module: CudaModule;
  readonly handle: bigint;
  readonly name: string;
  readonly parameters: readonly KernelParameter[] | undefined;
  readonly threadsPerBlockMax: number;

  constructor(module: CudaModule, handle: bigint, facts: DriverKernel) {
    this.module = module;
    this.handle = handle;
    this.name = facts.name;
    this.parameters = facts.parameters;
    this.threadsPerBlockMax = facts.threadsPerBlockMax;
  }
}

export function kernelCalls(modules: CudaModules): KernelCalls {
  return {
    loadModule: (ordinal, image) => modules.load(ordinal, image),
    unloadModule: (module) => modules.unload(module),
    findKernel: (module, name) => modules.find(module, name),
    launchKernel: (stream, kernel, options, args) => modules.launch(stream, kernel, options, args),
  };
}

export class CudaModules {
  readonly #session: CudaSession;
  readonly #streams: CudaStreams;
  // WHY kept apart: see CudaStreams.
  readonly #launchKernel: Libcuda["cuLaunchKernel"];
  readonly #limits = new Map<number, LaunchLimits>();
  /** WHY made at the first launch: most drivers launch nothing. */
  #scratch: ArgumentScratch | undefined;

  constructor({ session, streams }: CudaParts) {
    this.#session = session;
    this.#streams = streams;
    this.#launchKernel = session.cuda.cuLaunchKernel;
  }

  load(ordinal: number, image: Uint8Array): CudaModule {
    const cuda = this.#session.enter(ordinal);
    const { bytes, kernels } = readModuleImage(image);
    const out = new BigUint64Array(1);
    const log = new Uint8Array(limits.compilerLogBytesMax);
    const options = Int32Array.of(cuValue.CU_JIT_ERROR_LOG_BUFFER, cuValue.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    // SAFETY: the driver reads the image to the end that it names itself (see module-image.ts), and writes at most this many bytes
    // of its log, all within the call, during which both are reachable here.
    const values = BigUint64Array.of(addressOf(log), BigInt(log.byteLength));
    const status = cuda.cuModuleLoadDataEx(out, bytes, options.length, options, values);
    if (status === cuResult.CUDA_SUCCESS) return new CudaModule(ordinal, out[0] as bigint, kernels);
    const failure = this.#session.failure(status, "cuModuleLoadDataEx", `load a module on cuda:${ordinal}`);
    const words = logText(log);
    throw words === "" ? failure : new CudaError(failure.code, `${failure.message}\n${words}`, failure);
  }

  unload(module: DriverModule): void {
    const own = usableModule(module, "unload a module");
    const { handle, ordinal } = own;
    const cuda = this.#session.enterToRelease(ordinal);
    own.unloaded = true;
    const status = cuda.cuModuleUnload(handle);
    this.#session.checkReleased(status, "cuModuleUnload", `unload a module of cuda:${ordinal}`);
  }

  find(module: DriverModule, name: string): CudaKernel {
    const attempt = `find kernel ${JSON.stringify(name)}`;
    // WHY the zero: C would look for what stands before it.
    if (typeof name !== "string" || name.includes("\0")) throw new TypeError(`Cannot ${attempt}: it is not a name`);
    const { cuda, ordinal, loaded } = this.#enter(module, attempt);
    const out = new BigUint64Array(1);
    const status = cuda.cuModuleGetFunction(out, loaded.handle, name);
    if (status === cuResult.CUDA_ERROR_NOT_FOUND) throw notFound(attempt, loaded);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuModuleGetFunction", `${attempt} on cuda:${ordinal}`);
    }
    const handle = out[0] as bigint;
    const statusOfLoad = cuda.cuFuncLoad?.(handle) ?? cuResult.CUDA_SUCCESS;
    if (statusOfLoad !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(statusOfLoad, "cuFuncLoad", `load kernel ${name} on cuda:${ordinal}`);
    }
    return new CudaKernel(loaded, handle, {
      name,
      parameters: this.#parameters(cuda, handle, name) ?? loaded.kernels?.get(name),
      threadsPerBlockMax: this.#threadsPerBlockMax(cuda, handle, name),
    });
  }

  launch(stream: DriverStream, kernel: DriverKernel, options: LaunchOptions, args: readonly Uint8Array[]): void {
    const own = this.#streams.usable(stream);
    const launched = usableOn(own.ordinal, kernel);
    const attempt = `launch ${kernel.name}`;
    checkLaunch(attempt, options, this.#limitsOf(own.ordinal), kernel.threadsPerBlockMax);
    checkArguments(attempt, kernel.parameters, args);
    this.#scratch ??= new ArgumentScratch();
    // SAFETY: the table has an address for every parameter of the kernel, with as many readable bytes behind it as the parameter has:
    // counts and sizes were compared, or, where they are not known, the rest of the table leads to zeros.
    this.#enqueue(own, launched, options, this.#scratch.fill(args));
  }

  /**
   * As `launch`, for the kernels of this project: what is the same for all launches of a kernel is checked at the first, and the arguments
   * are in memory that stays.
   */
  launchOwn(stream: DriverStream, kernel: DriverKernel, blocks: number, args: ArgumentBlock): void {
    const own = this.#streams.usable(stream);
    const launched = usableOn(own.ordinal, kernel);
    if (launched.ownSizes?.grid[0] !== blocks) launched.ownSizes = this.#checkOwn(own.ordinal, launched, blocks);
    // SAFETY: the block has room for more and larger parameters than a kernel of this project has, and each of them has its address.
    this.#enqueue(own, launched, launched.ownSizes, args.table);
  }

  /**
   * WHY not entered first: a driver finds the context by the kernel and the stream, and says so where it wants it to be current. Then
   * nothing was launched.
   */
  #enqueue(stream: CudaStream, kernel: CudaKernel, options: LaunchOptions, table: bigint): void {
    const { handle, ordinal } = stream;
    let status = this.#call(kernel.handle, options, handle, table);
    if (status === cuResult.CUDA_ERROR_INVALID_CONTEXT || status === cuResult.CUDA_ERROR_INVALID_HANDLE) {
      this.#session.enter(ordinal);
      status = this.#call(kernel.handle, options, handle, table);
    }
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuLaunchKernel", `launch ${kernel.name} on cuda:${ordinal}`);
    }
  }

  #call(kernel: bigint, { grid, block, sharedBytes }: LaunchOptions, stream: bigint, table: bigint): number {
    const launch = this.#launchKernel;
    // WHY one by one: spread they would take half as long again.
    return launch(kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2], sharedBytes, stream, table, null);
  }

  #enter(
    module: DriverModule,
    attempt: string,
  ): { cuda: Libcuda; ordinal: number; handle: bigint; loaded: CudaModule } {
    const loaded = usableModule(module, attempt);
    const { ordinal, handle } = loaded;
    return { cuda: this.#session.enter(ordinal), ordinal, handle, loaded };
  }

  /** What the driver says of the parameters; undefined where it is too old to. */
  #parameters(cuda: Libcuda, handle: bigint, name: string): KernelParameter[] | undefined {
    if (cuda.cuFuncGetParamInfo === undefined) return undefined;
    const offset = new BigUint64Array(1);
    const size = new BigUint64Array(1);
    const parameters: KernelParameter[] = [];
    while (parameters.length <= limits.kernelParametersMax) {
      const status = cuda.cuFuncGetParamInfo(handle, parameters.length, offset, size);
      // The driver's answer to an index after the last.
      if (status === cuResult.CUDA_ERROR_INVALID_VALUE) return parameters;
      if (status !== cuResult.CUDA_SUCCESS) {
        throw this.#session.failure(status, "cuFuncGetParamInfo", `read the parameters of kernel ${name}`);
      }
      parameters.push({ byteOffset: Number(offset[0]), byteLength: Number(size[0]) });
    }
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot use kernel ${name}: it has more than ${limits.kernelParametersMax} parameters (kernelParametersMax)`,
    );
  }

  #threadsPerBlockMax(cuda: Libcuda, handle: bigint, name: string): number {
    const out = new Int32Array(1);
    const status = cuda.cuFuncGetAttribute(out, cuValue.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, handle);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuFuncGetAttribute", `read the limits of kernel ${name}`);
    }
    return out[0] as number;
  }

  #checkOwn(ordinal: number, kernel: CudaKernel, blocks: number): LaunchOptions {
    const attempt = `launch ${kernel.name}`;
    const sizes = { grid: [blocks, 1, 1], block: [BLOCK_THREADS, 1, 1], sharedBytes: 0 } as const;
    checkLaunch(attempt, sizes, this.#limitsOf(ordinal), kernel.threadsPerBlockMax);
    checkBlock(attempt, kernel.parameters);
    return sizes;
  }

  #limitsOf(ordinal: number): LaunchLimits {
    let known = this.#limits.get(ordinal);
    if (known === undefined) {
      known = readLaunchLimits(this.#session, ordinal);
      this.#limits.set(ordinal, known);
    }
    return known;
  }
}

/** @throws TypeError for a kernel of another driver or device, CLOSED */
function usableOn(ordinal: number, kernel: DriverKernel): CudaKernel {
  if (!(kernel instanceof CudaKernel)) throw new TypeError("Cannot launch a kernel of another driver");
  const attempt = `launch ${kernel.name}`;
  if (kernel.module.unloaded) throw new CudaIpcError("CLOSED", `Cannot ${attempt}: its module was unloaded`);
  if (kernel.module.ordinal === ordinal) return kernel;
  throw new TypeError(`Cannot ${attempt} on cuda:${ordinal}: its module is loaded on cuda:${kernel.module.ordinal}`);
}

const NAMES_SHOWN_MAX = 20;

function notFound(attempt: string, { kernelNames }: CudaModule): CudaIpcError {
  let there = "";
  if (kernelNames !== undefined) {
    const more = kernelNames.length > NAMES_SHOWN_MAX ? `, and ${kernelNames.length - NAMES_SHOWN_MAX} more` : "";
    const shown = kernelNames.slice(0, NAMES_SHOWN_MAX).join(", ");
    there = kernelNames.length === 0 ? "; it has no kernel" : `; it has ${shown}${more}`;
  }
  return new CudaIpcError("KERNEL_NOT_FOUND", `Cannot ${attempt}: not in the module${there}`);
}

function logText(log: Uint8Array): string {
  const end = log.indexOf(0);
  return new TextDecoder().decode(end < 0 ? log : log.subarray(0, end)).trim();
}

function usableModule(module: DriverModule, attempt: string): CudaModule {
  if (!(module instanceof CudaModule)) throw new TypeError(`Cannot ${attempt} with a module of another driver`);
  if (!module.unloaded) return module;
  throw new CudaIpcError("CLOSED", `Cannot ${attempt}: the module was unloaded`);
}
