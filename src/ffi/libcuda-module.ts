/** libcuda: modules, kernels and their launches. Symbols and signatures, no logic. */
import type { Address, PointerArgument } from "./koffi.js";
import {
  cuda,
  cudaSince,
  type Handle,
  type Status,
  type SymbolTable,
} from "./libcuda-signature.js";

export interface ModuleFunctions {
  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html
  cuModuleLoadDataEx(
    module: BigUint64Array,
    image: PointerArgument,
    optionCount: number,
    options: Int32Array,
    /** An array of `void*`: a number is stored as itself, a buffer as its address. */
    optionValues: BigUint64Array,
  ): Status;
  cuModuleUnload(module: Handle): Status;
  cuModuleGetFunction(kernel: BigUint64Array, module: Handle, name: string): Status;

  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EXEC.html
  cuFuncGetAttribute(value: Int32Array, attribute: number, kernel: Handle): Status;
  cuLaunchKernel(
    kernel: Handle,
    gridX: number,
    gridY: number,
    gridZ: number,
    blockX: number,
    blockY: number,
    blockZ: number,
    sharedBytes: number,
    stream: Handle,
    /** SAFETY: the address of an array of addresses, one for each parameter of the kernel. */
    parameters: Address | null,
    extra: null,
  ): Status;
  /** Absent in drivers before CUDA 12.4. */
  cuFuncGetParamInfo?(
    kernel: Handle,
    index: number,
    byteOffset: BigUint64Array,
    byteLength: BigUint64Array,
  ): Status;
  /** Absent in drivers before CUDA 12.4, where cuModuleGetFunction loads the kernel. */
  cuFuncLoad?(kernel: Handle): Status;
}

export const moduleFunctions: SymbolTable<ModuleFunctions> = {
  cuModuleLoadDataEx: cuda("cuModuleLoadDataEx", "void*", "void*", "uint", "void*", "void*"),
  cuModuleUnload: cuda("cuModuleUnload", "void*"),
  cuModuleGetFunction: cuda("cuModuleGetFunction", "void*", "void*", "str"),
  cuFuncGetAttribute: cuda("cuFuncGetAttribute", "void*", "int", "void*"),
  cuLaunchKernel: cuda(
    "cuLaunchKernel",
    "void*",
    "uint",
    "uint",
    "uint",
    "uint",
    "uint",
    "uint",
    "uint",
    "void*",
    "void*",
    "void*",
  ),
  cuFuncGetParamInfo: cudaSince("12.4", "cuFuncGetParamInfo", "void*", "size_t", "void*", "void*"),
  cuFuncLoad: cudaSince("12.4", "cuFuncLoad", "void*"),
};
