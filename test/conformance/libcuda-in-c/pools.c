/* Memory pools. Part of libcuda.c, which includes it. */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemPoolDestroy(CUmemoryPool pool) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemPoolExportToShareableHandle(void *fd, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *fd, CUmemAllocationHandleType type, unsigned long long flags) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data) { return CUDA_ERROR_NOT_SUPPORTED; }
