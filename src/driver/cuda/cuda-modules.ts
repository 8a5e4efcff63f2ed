/**
 * Modules and their kernels. Launches are in cuda-launches.ts.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
 *
 * Trap: a kernel whose code is loaded by its first launch may wait for streams that wait for it.
 * `findKernel` therefore loads it.
 */
import { CudaError, CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import { addressOf } from "../../os/host-memory.js";
import type {
  DriverKernel,
  DriverModule,
  KernelCalls,
  KernelParameter,
  LaunchOptions,
} from "../kernel-calls.js";
import type { CudaSession } from "./cuda-session.js";
import { readModuleImage } from "./module-image.js";
import type { KernelTable } from "./ptx-entries.js";

export type ModuleCalls = Pick<KernelCalls, "loadModule" | "unloadModule" | "findKernel">;

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

/** Usable on its module's device while the module is loaded. */
export class CudaKernel implements DriverKernel {
  /** The sizes of the last `launchOwn`, which passed their check. */
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

export function cudaModules(session: CudaSession): ModuleCalls {
  /** Reads the parameters from the driver; undefined if the driver is too old to tell. */
  function parametersOf(
    cuda: Libcuda,
    handle: bigint,
    name: string,
  ): KernelParameter[] | undefined {
    if (cuda.cuFuncGetParamInfo === undefined) return undefined;
    const offset = new BigUint64Array(1);
    const size = new BigUint64Array(1);
    const parameters: KernelParameter[] = [];
    while (parameters.length <= limits.kernelParametersMax) {
      const status = cuda.cuFuncGetParamInfo(handle, parameters.length, offset, size);
      // The driver's answer to an index after the last.
      if (status === cuResult.CUDA_ERROR_INVALID_VALUE) return parameters;
      session.check(status, "cuFuncGetParamInfo", `read the parameters of kernel ${name}`);
      parameters.push({ byteOffset: Number(offset[0]), byteLength: Number(size[0]) });
    }
    const found = `it has more than ${limits.kernelParametersMax} parameters (kernelParametersMax)`;
    throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot use kernel ${name}: ${found}`);
  }

  function threadsPerBlockMax(cuda: Libcuda, handle: bigint, name: string): number {
    const out = new Int32Array(1);
    const attribute = cuValue.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    const status = cuda.cuFuncGetAttribute(out, attribute, handle);
    session.check(status, "cuFuncGetAttribute", `read the limits of kernel ${name}`);
    return out[0] as number;
  }

  return {
    loadModule(ordinal, image) {
      const cuda = session.enter(ordinal);
      const { bytes, kernels } = readModuleImage(image);
      const out = new BigUint64Array(1);
      const log = new Uint8Array(limits.compilerLogBytesMax);
      const options = Int32Array.of(
        cuValue.CU_JIT_ERROR_LOG_BUFFER,
        cuValue.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
      );
      // SAFETY: the driver reads the image to the end that the image itself names
      // (module-image.ts), and writes at most this many bytes of its log. Both happen within the
      // call, and both are reachable here until then.
      const values = BigUint64Array.of(addressOf(log), BigInt(log.byteLength));
      const status = cuda.cuModuleLoadDataEx(out, bytes, options.length, options, values);
      if (status === cuResult.CUDA_SUCCESS)
        return new CudaModule(ordinal, out[0] as bigint, kernels);
      const attempt = `load a module on cuda:${ordinal}`;
      const failure = session.failure(status, "cuModuleLoadDataEx", attempt);
      const text = logText(log);
      throw text === ""
        ? failure
        : new CudaError(failure.code, `${failure.message}\n${text}`, failure);
    },

    unloadModule(module) {
      const own = usableModule(module, "unload a module");
      const { handle, ordinal } = own;
      const cuda = session.enterToRelease(ordinal);
      own.unloaded = true;
      const status = cuda.cuModuleUnload(handle);
      session.checkReleased(status, "cuModuleUnload", `unload a module of cuda:${ordinal}`);
    },

    findKernel(module, name) {
      const attempt = `find kernel ${JSON.stringify(name)}`;
      // C would end the name at a zero byte.
      if (typeof name !== "string" || name.includes("\0"))
        throw new TypeError(`Cannot ${attempt}: it is not a name`);
      const loaded = usableModule(module, attempt);
      const { ordinal } = loaded;
      const cuda = session.enter(ordinal);
      const out = new BigUint64Array(1);
      const status = cuda.cuModuleGetFunction(out, loaded.handle, name);
      if (status === cuResult.CUDA_ERROR_NOT_FOUND) throw notFound(attempt, loaded);
      session.check(status, "cuModuleGetFunction", `${attempt} on cuda:${ordinal}`);
      const handle = out[0] as bigint;
      const loadStatus = cuda.cuFuncLoad?.(handle) ?? cuResult.CUDA_SUCCESS;
      session.check(loadStatus, "cuFuncLoad", `load kernel ${name} on cuda:${ordinal}`);
      return new CudaKernel(loaded, handle, {
        name,
        parameters: parametersOf(cuda, handle, name) ?? loaded.kernels?.get(name),
        threadsPerBlockMax: threadsPerBlockMax(cuda, handle, name),
      });
    },
  };
}

const NAMES_SHOWN_MAX = 20;

function notFound(attempt: string, { kernelNames }: CudaModule): CudaIpcError {
  let there = "";
  if (kernelNames !== undefined) {
    const more =
      kernelNames.length > NAMES_SHOWN_MAX
        ? `, and ${kernelNames.length - NAMES_SHOWN_MAX} more`
        : "";
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
  if (!(module instanceof CudaModule))
    throw new TypeError(`Cannot ${attempt} with a module of another driver`);
  if (!module.unloaded) return module;
  throw new CudaIpcError("CLOSED", `Cannot ${attempt}: the module was unloaded`);
}
