/* Memory of the legacy kind and its handles. Part of libcuda.c, which includes it. */

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemFree_v2(CUdeviceptr pointer) { return free_pooled(pointer) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
  return pooled_range(base, bytes, pointer) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) { return CUDA_ERROR_NOT_SUPPORTED; }
