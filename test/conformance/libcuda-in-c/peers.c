/* Several devices: there is only one here. Part of libcuda.c, which includes it. */

CUresult cuDeviceCanAccessPeer(int *can_access, CUdevice device, CUdevice peer) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream) { return CUDA_ERROR_NOT_SUPPORTED; }
