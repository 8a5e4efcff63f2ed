/**
 * libcuda: initialisation, version, error names, devices and their peers, contexts. Symbols and
 * signatures, no logic. Every driver since CUDA 11.4 has all of them.
 */
import type { PointerArgument } from "./koffi.js";
import {
  cuda,
  type DeviceHandle,
  type Handle,
  type Status,
  type SymbolTable,
} from "./libcuda-signature.js";

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
  /** `_v2` gives the UUID of a MIG instance, and not its parent's. */
  cuDeviceGetUuid(uuid: Uint8Array, device: DeviceHandle): Status;
  cuDeviceTotalMem(bytes: BigUint64Array, device: DeviceHandle): Status;
  cuDeviceGetAttribute(value: Int32Array, attribute: number, device: DeviceHandle): Status;

  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PRIMARY__CTX.html
  cuDevicePrimaryCtxRetain(context: BigUint64Array, device: DeviceHandle): Status;
  cuDevicePrimaryCtxRelease(device: DeviceHandle): Status;

  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html
  cuCtxPushCurrent(context: Handle): Status;
  cuCtxPopCurrent(context: BigUint64Array): Status;

  /**
   * For the device of the current context.
   * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
   */
  cuMemGetInfo(freeBytes: PointerArgument, totalBytes: PointerArgument): Status;

  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PEER__ACCESS.html
  cuDeviceCanAccessPeer(canAccess: Int32Array, device: DeviceHandle, peer: DeviceHandle): Status;
  cuCtxEnablePeerAccess(peerContext: Handle, flags: 0): Status;
  /** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html */
  cuMemcpyPeerAsync(
    to: bigint,
    toContext: Handle,
    from: bigint,
    fromContext: Handle,
    byteLength: number,
    stream: Handle,
  ): Status;
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
  cuCtxPushCurrent: cuda("cuCtxPushCurrent_v2", "void*"),
  cuCtxPopCurrent: cuda("cuCtxPopCurrent_v2", "void*"),
  cuMemGetInfo: cuda("cuMemGetInfo_v2", "void*", "void*"),
  cuDeviceCanAccessPeer: cuda("cuDeviceCanAccessPeer", "void*", "int", "int"),
  cuCtxEnablePeerAccess: cuda("cuCtxEnablePeerAccess", "void*", "uint"),
  cuMemcpyPeerAsync: cuda(
    "cuMemcpyPeerAsync",
    "uint64",
    "void*",
    "uint64",
    "void*",
    "size_t",
    "void*",
  ),
};
