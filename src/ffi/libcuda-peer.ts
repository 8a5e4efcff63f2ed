/** libcuda: several devices of one process. Symbols and signatures, no logic. */
import { cuda, type DeviceHandle, type Handle, type Status, type SymbolTable } from "./libcuda-signature.js";

export interface PeerFunctions {
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

export const peerFunctions: SymbolTable<PeerFunctions> = {
  cuDeviceCanAccessPeer: cuda("cuDeviceCanAccessPeer", "void*", "int", "int"),
  cuCtxEnablePeerAccess: cuda("cuCtxEnablePeerAccess", "void*", "uint"),
  cuMemcpyPeerAsync: cuda("cuMemcpyPeerAsync", "uint64", "void*", "uint64", "void*", "size_t", "void*"),
};
