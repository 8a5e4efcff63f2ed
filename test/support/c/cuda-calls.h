/*
 * The calls of libcuda that the C programs of the GPU tests use, opened by their names. Their types are declared here: a machine
 * with a GPU need not have a cuda.h.
 */
#ifndef TEST_CUDA_CALLS_H
#define TEST_CUDA_CALLS_H

#include "common.h"
#include <dlfcn.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct { char reserved[64]; } CUipcMemHandle;
typedef struct {
  int type, requested_handle_types, location_type, location_id;
  void *win32;
  struct { unsigned char compression, rdma; unsigned short usage; unsigned char reserved[4]; } flags;
} CUmemAllocationProp;
typedef struct { int location_type, location_id, flags; } CUmemAccessDesc;

#define LOCATION_DEVICE 1
#define ALLOCATION_PINNED 1
#define HANDLE_POSIX_FD 1
#define ACCESS_READ_WRITE 3
#define GRANULARITY_MINIMUM 0
#define LAZY_PEER_ACCESS 1

#define CUDA_CALLS(use) \
  use(cuInit, "cuInit", (unsigned)) \
  use(cuDeviceGet, "cuDeviceGet", (int *, int)) \
  use(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (void **, int)) \
  use(cuCtxSetCurrent, "cuCtxSetCurrent", (void *)) \
  use(cuCtxSynchronize, "cuCtxSynchronize", (void)) \
  use(cuGetErrorName, "cuGetErrorName", (CUresult, const char **)) \
  use(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t)) \
  use(cuMemFree, "cuMemFree_v2", (CUdeviceptr)) \
  use(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (CUdeviceptr, const void *, size_t)) \
  use(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t)) \
  use(cuIpcGetMemHandle, "cuIpcGetMemHandle", (CUipcMemHandle *, CUdeviceptr)) \
  use(cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2", (CUdeviceptr *, CUipcMemHandle, unsigned)) \
  use(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", (CUdeviceptr)) \
  use(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", (size_t *, const CUmemAllocationProp *, int)) \
  use(cuMemCreate, "cuMemCreate", (unsigned long long *, size_t, const CUmemAllocationProp *, unsigned long long)) \
  use(cuMemRelease, "cuMemRelease", (unsigned long long)) \
  use(cuMemAddressReserve, "cuMemAddressReserve", (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)) \
  use(cuMemAddressFree, "cuMemAddressFree", (CUdeviceptr, size_t)) \
  use(cuMemMap, "cuMemMap", (CUdeviceptr, size_t, size_t, unsigned long long, unsigned long long)) \
  use(cuMemUnmap, "cuMemUnmap", (CUdeviceptr, size_t)) \
  use(cuMemSetAccess, "cuMemSetAccess", (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t)) \
  use(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", (void *, unsigned long long, int, unsigned long long)) \
  use(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", (unsigned long long *, void *, int))

#define DECLARE(name, symbol, parameters) CUresult(*name) parameters;
static struct { CUDA_CALLS(DECLARE) } cuda;

static inline void load_call(void *library, const char *symbol, void *target) {
  void *found = dlsym(library, symbol);
  if (found == NULL) fail("libcuda lacks %s", symbol);
  memcpy(target, &found, sizeof found);
}
#define LOAD(name, symbol, parameters) load_call(library, symbol, &cuda.name);

static inline const char *status_name(CUresult status) {
  const char *name = NULL;
  cuda.cuGetErrorName(status, &name);
  return name == NULL ? "unknown error" : name;
}

static inline void check(CUresult status, const char *call) {
  if (status != 0) fail("%s: %s", call, status_name(status));
}
#define CHECK(call) check(cuda.call, #call)

/* Makes the primary context of the first GPU current. */
static inline void open_gpu(void) {
  int device;
  void *context;
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) fail("%s", dlerror());
  CUDA_CALLS(LOAD)
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
}

static inline CUmemAllocationProp shareable(void) {
  CUmemAllocationProp prop;
  memset(&prop, 0, sizeof prop);
  prop.type = ALLOCATION_PINNED;
  prop.requested_handle_types = HANDLE_POSIX_FD;
  prop.location_type = LOCATION_DEVICE;
  return prop;
}

/* Maps the whole allocation, and lets the first GPU read and write it. */
static inline CUdeviceptr map_whole(unsigned long long handle, size_t bytes) {
  CUdeviceptr start;
  CUmemAccessDesc access = {LOCATION_DEVICE, 0, ACCESS_READ_WRITE};
  CHECK(cuMemAddressReserve(&start, bytes, 0, 0, 0));
  CHECK(cuMemMap(start, bytes, 0, handle, 0));
  CHECK(cuMemSetAccess(start, bytes, &access, 1));
  return start;
}

#endif
