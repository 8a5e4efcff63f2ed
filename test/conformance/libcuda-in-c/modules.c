/* Modules and kernels. Part of libcuda.c, which includes it. */

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuModuleUnload(CUmodule module) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuModuleGetFunction(CUfunction *kernel, CUmodule module, const char *name) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction kernel) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuFuncGetParamInfo(CUfunction kernel, size_t index, size_t *offset, size_t *bytes) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuLaunchKernel(CUfunction kernel, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **parameters, void **extra) { return CUDA_ERROR_NOT_SUPPORTED; }
