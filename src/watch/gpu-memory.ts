/**
 * How much memory each GPU has, how much is used, and by which processes. NVIDIA's management
 * library tells it without a CUDA context, so looking takes no memory of the GPU.
 */
import { messageOf } from "../base/errors.js";
import { type Libnvml, type NvmlDevice, nvmlResult, openLibnvml } from "../ffi/libnvml.js";
import type { MemoryUse } from "./host-memory.js";

export interface GpuMemoryUse extends MemoryUse {
  readonly uuid: string;
  readonly model: string;
  /** Their own memory, without that which they have mapped from others. */
  readonly processes: readonly { readonly pid: number; readonly bytes: number | undefined }[];
}

const TEXT_BYTES = 96;
const PROCESSES_MAX = 1024;
const PROCESS_BYTES = 24;
const UNKNOWN_BYTES = 2n ** 64n - 1n;

interface Gpu {
  readonly device: NvmlDevice;
  readonly uuid: string;
  readonly model: string;
}

export class GpuMemory {
  readonly #open: () => Libnvml;
  #nvml: Libnvml | undefined;
  #gpus: readonly Gpu[] = [];
  /** Why nothing is known. */
  #reason: string | undefined;

  constructor(open: () => Libnvml = openLibnvml) {
    this.#open = open;
  }

  /** Why `look` finds nothing, as a clause. Undefined before the first look, and if it finds. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** All GPUs now. Empty if the library is missing or fails. */
  look(): GpuMemoryUse[] {
    try {
      if (this.#reason !== undefined) return [];
      this.#nvml ??= this.#begin();
      const nvml = this.#nvml;
      return this.#gpus.map((gpu) => useOf(nvml, gpu));
    } catch (error) {
      this.#reason = reasonOf(error);
      return [];
    }
  }

  close(): void {
    this.#nvml?.nvmlShutdown();
    this.#nvml = undefined;
    this.#reason = "it was closed";
  }

  #begin(): Libnvml {
    const nvml = this.#open();
    check(nvml, "nvmlInit_v2", nvml.nvmlInit_v2());
    const count = new Uint32Array(1);
    check(nvml, "nvmlDeviceGetCount_v2", nvml.nvmlDeviceGetCount_v2(count));
    this.#gpus = Array.from({ length: count[0] ?? 0 }, (_, index) => gpuAt(nvml, index));
    return nvml;
  }
}

function gpuAt(nvml: Libnvml, index: number): Gpu {
  const out = new BigUint64Array(1);
  const call = "nvmlDeviceGetHandleByIndex_v2";
  check(nvml, call, nvml.nvmlDeviceGetHandleByIndex_v2(index, out));
  const device = out[0] ?? 0n;
  const text = new Uint8Array(TEXT_BYTES);
  check(nvml, "nvmlDeviceGetUUID", nvml.nvmlDeviceGetUUID(device, text, TEXT_BYTES));
  const uuid = textIn(text);
  check(nvml, "nvmlDeviceGetName", nvml.nvmlDeviceGetName(device, text, TEXT_BYTES));
  return { device, uuid, model: textIn(text) };
}

function useOf(nvml: Libnvml, { device, uuid, model }: Gpu): GpuMemoryUse {
  const bytes = new BigUint64Array(3);
  check(nvml, "nvmlDeviceGetMemoryInfo", nvml.nvmlDeviceGetMemoryInfo(device, bytes));
  const [total = 0n, , used = 0n] = bytes;
  return {
    uuid,
    model,
    totalBytes: Number(total),
    usedBytes: Number(used),
    processes: processesOn(nvml, device),
  };
}

/** Empty if the driver does not tell, as in a container. */
function processesOn(nvml: Libnvml, device: NvmlDevice): GpuMemoryUse["processes"] {
  const count = Uint32Array.of(PROCESSES_MAX);
  const entries = new BigUint64Array((PROCESSES_MAX * PROCESS_BYTES) / 8);
  const result = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, count, entries);
  if (result !== nvmlResult.NVML_SUCCESS) return [];
  const view = new DataView(entries.buffer);
  return Array.from({ length: Math.min(count[0] ?? 0, PROCESSES_MAX) }, (_, index) => {
    const used = view.getBigUint64(index * PROCESS_BYTES + 8, true);
    return {
      pid: view.getUint32(index * PROCESS_BYTES, true),
      bytes: used === UNKNOWN_BYTES ? undefined : Number(used),
    };
  });
}

function textIn(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return Buffer.from(bytes.subarray(0, end < 0 ? undefined : end)).toString("utf8");
}

class NvmlError extends Error {}

function check(nvml: Libnvml, call: string, result: number): void {
  if (result !== nvmlResult.NVML_SUCCESS)
    throw new NvmlError(`${call} failed: ${nvml.nvmlErrorString(result)}`);
}

function reasonOf(error: unknown): string {
  if (error instanceof NvmlError) return error.message;
  const words = messageOf(error);
  return /No such file/.test(words)
    ? "libnvidia-ml.so.1 is not installed"
    : `libnvidia-ml.so.1 cannot be used: ${words}`;
}
