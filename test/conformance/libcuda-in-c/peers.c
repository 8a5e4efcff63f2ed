/* Peer devices; there is only one device here. Part of libcuda.c, which includes it. */

CUresult cuDeviceCanAccessPeer(int *can_access, CUdevice device, CUdevice peer) {
  REQUIRE(device == 0 && peer == 0);
  *can_access = 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  REQUIRE_CONTEXT;
  REQUIRE(flags == 0);
  return peer == current() ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream) {
  REQUIRE(to_context == &context && from_context == &context);
  return enqueue(stream, COPY, to, from, bytes);
}
