/** The host device runs no code for GPUs; its element operations are in host-element-operations.ts. */
import { CudaIpcError } from "../../base/errors.js";
import type { KernelCalls } from "../kernel-calls.js";

function refuse(attempt: string): never {
  throw new CudaIpcError("UNSUPPORTED", `Cannot ${attempt} on the host device: it runs no code for GPUs`);
}

export const hostKernels: KernelCalls = {
  loadModule: () => refuse("load a module"),
  unloadModule: () => refuse("unload a module"),
  findKernel: () => refuse("find a kernel"),
  launchKernel: () => refuse("launch a kernel"),
};
