/**
 * libcuda: initialisation, version, error names, devices, contexts. Symbols and signatures, no logic.
 * All are in every driver since CUDA 11.4.
 */
import type { PointerArgument } from "./koffi.js";
import { cuda, type DeviceHandle, type Handle, type Status, type SymbolTable } from "./libcuda-signature.js";

export interface DeviceFunctions {
  /** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__INITIALIZE.html */
  cuInit(flags: 0): Status;
  /** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VERSION.html */
  cuDriverGetVersion(version: Int32Array): Status;
  /** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__ERROR.html */
  cuGetErrorName(status: Status, name: BigUint64Array): Status;

  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html
  cuDeviceGet(device: Int32Array, ordinal: number): Status;
  cuDeviceGetCount(count: Int32Array): Status;
  cuDeviceGetName(name: Uint8Array, byteLength: number, device: DeviceHandle): Status;
  /** `_v2`: a MIG instance's own UUID instead of its parent's. */
  cuDeviceGetUuid(uuid: Uint8Array, device: DeviceHandle): Status;
  cuDeviceTotalMem(bytes: BigUint64Array, device: DeviceHandle): Status;
  cuDeviceGetAttribute(value: Int32Array, attribute: number, device: DeviceHandle): Status;

  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PRIMARY__CTX.html
  cuDevicePrimaryCtxRetain(context: BigUint64Array, device: DeviceHandle): Status;
  cuDevicePrimaryCtxRelease(device: DeviceHandle): Status;

  /** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html */
  cuCtxSetCurrent(context: Handle): Status;

  /** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html, of the current context's device. */
  cuMemGetInfo(freeBytes: PointerArgument, totalBytes: PointerArgument): Status;
}

export const deviceFunctions: SymbolTable<DeviceFunctions> = {
  cuInit: cuda("cuInit", "uint"),
  cuDriverGetVersion: cuda("cuDriverGetVersion", "void*"),
  cuGetErrorName: cuda("cuGetErrorName", "int", "void*"),
  cuDeviceGet: cuda("cuDeviceGet", "void*", "int"),
  cuDeviceGetCount: cuda("cuDeviceGetCount", "void*"),
  cuDeviceGetName: cuda("cuDeviceGetName", "void*", "int", "int"),
  cuDeviceGetUuid: cuda("cuDeviceGetUuid_v2", "void*", "int"),
  cuDeviceTotalMem: cuda("cuDeviceTotalMem_v2", "void*", "int"),
  cuDeviceGetAttribute: cuda("cuDeviceGetAttribute", "void*", "int", "int"),
  cuDevicePrimaryCtxRetain: cuda("cuDevicePrimaryCtxRetain", "void*", "int"),
  cuDevicePrimaryCtxRelease: cuda("cuDevicePrimaryCtxRelease_v2", "int"),
  cuCtxSetCurrent: cuda("cuCtxSetCurrent", "void*"),
  cuMemGetInfo: cuda("cuMemGetInfo_v2", "void*", "void*"),
};
