/* Events and their handles. Part of libcuda.c, which includes it. */

CUresult cuEventCreate(CUevent *event, unsigned int flags) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuEventDestroy_v2(CUevent event) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuEventRecord(CUevent event, CUstream stream) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuEventQuery(CUevent event) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle) { return CUDA_ERROR_NOT_SUPPORTED; }
