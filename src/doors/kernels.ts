/** `cuda-ipc/kernels`: custom kernels, and the types of the built-in operations on arrays. */
import { checkRuntime } from "../base/check-runtime.js";

export type { Scalar } from "../array/arithmetic.js";
export type { Statistics } from "../array/statistics.js";
export type { KernelParameter } from "../driver/kernel-calls.js";
export type { Comparison } from "../driver/operation-calls.js";
export type { AffineOptions, OperationOptions } from "../gpu/arrays/array-operations.js";
export type { CompareOptions } from "../gpu/arrays/compare-arrays.js";
export type { Extent, Kernel, KernelLaunchOptions } from "../gpu/kernels/kernel.js";
export { arg, type KernelArgument, type TypedArgument } from "../gpu/kernels/kernel-arguments.js";
export { Module, type ModuleOptions } from "../gpu/kernels/module.js";
export { type CompileOptions, Program } from "../gpu/kernels/program.js";

checkRuntime();
