/*
 * Loads libcuda by name, like the driver in TypeScript. No library is linked, and both use the same
 * functions.
 */
#ifndef BENCH_CUDA_DRIVER_H
#define BENCH_CUDA_DRIVER_H

#include "common.h"
#include <cuda.h>
#include <dlfcn.h>

#ifndef CUDA_FUNCTIONS
#define CUDA_FUNCTIONS(use) \
  use(cuInit) use(cuDeviceGet) use(cuDevicePrimaryCtxRetain) use(cuCtxSetCurrent) use(cuGetErrorName) \
  use(cuStreamCreate) use(cuStreamQuery) use(cuStreamWriteValue64) use(cuStreamWaitValue64) use(cuStreamBatchMemOp) \
  use(cuMemHostRegister) use(cuMemHostGetDevicePointer) \
  use(cuEventCreate) use(cuEventRecord) use(cuStreamWaitEvent) use(cuIpcGetEventHandle) use(cuIpcOpenEventHandle) \
  use(cuMemAlloc) use(cuIpcGetMemHandle) use(cuIpcOpenMemHandle) use(cuIpcCloseMemHandle) \
  use(cuMemPoolCreate) use(cuMemAllocFromPoolAsync) use(cuMemFreeAsync) \
  use(cuMemcpyHtoDAsync) use(cuMemcpyDtoHAsync) use(cuMemcpyDtoDAsync) \
  use(cuModuleLoadDataEx) use(cuModuleGetFunction) use(cuLaunchKernel)
#endif

/*
 * cuda.h maps some of these names to other symbols (cuMemAlloc is cuMemAlloc_v2). The members and
 * strings here follow it.
 */
#define DECLARE(name) __typeof__(name) *name;
#define TEXT(name) #name
#define LOAD(name) load_symbol(library, TEXT(name), &driver.name);

static struct { CUDA_FUNCTIONS(DECLARE) } driver;

static inline void load_symbol(void *library, const char *name, void *target) {
  void *symbol = dlsym(library, name);
  if (symbol == NULL) fail("libcuda lacks %s", name);
  memcpy(target, &symbol, sizeof symbol);
}

static inline void check(CUresult status, const char *call) {
  const char *name = NULL;
  if (status == CUDA_SUCCESS) return;
  driver.cuGetErrorName(status, &name);
  fail("%s: %s (%d)", call, name == NULL ? "unknown error" : name, status);
}
#define CHECK(call) check(driver.call, #call)

/* Opens the driver and makes the device's primary context current on this thread. */
static inline void open_device(int ordinal) {
  CUdevice device;
  CUcontext context;
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) fail("%s", dlerror());
  CUDA_FUNCTIONS(LOAD)
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, ordinal));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
}

static inline CUstream create_stream(void) {
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

static inline void finish(CUstream stream) {
  struct limit limit = {0};
  for (;;) {
    CUresult status = driver.cuStreamQuery(stream);
    if (status == CUDA_SUCCESS) return;
    if (status != CUDA_ERROR_NOT_READY) check(status, "cuStreamQuery");
    check_limit(&limit, "the stream is idle");
  }
}

#endif
