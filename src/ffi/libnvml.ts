/**
 * NVIDIA's management library: its symbols and signatures. It needs no CUDA context, so it takes no
 * memory of a GPU.
 * https://docs.nvidia.com/deploy/nvml-api/
 */
import { koffi } from "./koffi.js";
import type { LoadLibrary } from "./libcuda.js";

/** nvmlReturn_t. */
type Result = number;
/** nvmlDevice_t: an opaque pointer. */
export type NvmlDevice = bigint;

export const nvmlResult = { NVML_SUCCESS: 0, NVML_ERROR_INSUFFICIENT_SIZE: 7 } as const;

export interface Libnvml {
  nvmlInit_v2(): Result;
  nvmlShutdown(): Result;
  nvmlErrorString(result: Result): string;
  nvmlDeviceGetCount_v2(count: Uint32Array): Result;
  nvmlDeviceGetHandleByIndex_v2(index: number, device: BigUint64Array): Result;
  nvmlDeviceGetUUID(device: NvmlDevice, text: Uint8Array, byteLength: number): Result;
  nvmlDeviceGetName(device: NvmlDevice, text: Uint8Array, byteLength: number): Result;
  /** Total, free, used. */
  nvmlDeviceGetMemoryInfo(device: NvmlDevice, bytes: BigUint64Array): Result;
  /**
   * In each entry of 24 bytes: the process (u32 at 0), its bytes (u64 at 8, all ones if unknown),
   * and two numbers of MIG instances.
   */
  nvmlDeviceGetComputeRunningProcesses_v3(
    device: NvmlDevice,
    count: Uint32Array,
    entries: BigUint64Array,
  ): Result;
}

const symbols: Readonly<Record<keyof Libnvml, readonly [result: string, ...parameters: string[]]>> =
  {
    nvmlInit_v2: ["int"],
    nvmlShutdown: ["int"],
    nvmlErrorString: ["str", "int"],
    nvmlDeviceGetCount_v2: ["int", "void*"],
    nvmlDeviceGetHandleByIndex_v2: ["int", "uint", "void*"],
    nvmlDeviceGetUUID: ["int", "void*", "void*", "uint"],
    nvmlDeviceGetName: ["int", "void*", "void*", "uint"],
    nvmlDeviceGetMemoryInfo: ["int", "void*", "void*"],
    nvmlDeviceGetComputeRunningProcesses_v3: ["int", "void*", "void*", "void*"],
  };

/** Throws if the dynamic linker does not find the library, or it is too old. */
export function openLibnvml(load: LoadLibrary = (name) => koffi().load(name)): Libnvml {
  const library = load("libnvidia-ml.so.1");
  const entries = Object.entries(symbols).map(([name, [result, ...parameters]]) => [
    name,
    library.func(name, result, parameters),
  ]);
  return Object.fromEntries(entries) as Libnvml;
}
