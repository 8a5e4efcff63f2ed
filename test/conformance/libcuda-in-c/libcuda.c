/*
 * A libcuda for one device whose memory is memory files, as far as the CUDA driver uses it. It is
 * compiled against the real cuda.h, so the compiler checks its functions against NVIDIA's
 * declarations: it gets through the FFI what a real driver would get. It is strict about arguments
 * and the current context. A process that uses a released context is aborted. The calls that
 * enqueue on or query a stream also do its work. It is no model of a GPU: nothing runs
 * concurrently. When the file named by LIBCUDA_IN_C_LOST exists, its
 * context is lost, in the worst way for its user: it accepts new work and never does it, and only a
 * query of pending work reports the loss. After that every call fails, except those of virtual
 * memory, which still work as in the real driver (seen under MPS on an H200). Calls that release
 * something do it and then fail. LIBCUDA_IN_C_LACKS="vmm pools legacy events kernels words" makes
 * the calls of these mechanisms fail with NOT_SUPPORTED.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)
#define TOTAL_BYTES ((size_t)8 << 30)
/* Handles use the highest bits, so that a conversion to a double or a signed number breaks them. */
#define HANDLE_MARK 0xF000000000000000ull
#define OPERATIONS_MAX 4096

#define INVALID CUDA_ERROR_INVALID_VALUE
#define REQUIRE(condition) if (!(condition)) return INVALID
#define NEED(mechanism) if (lacks(mechanism)) return CUDA_ERROR_NOT_SUPPORTED
#define REQUIRE_CURRENT if (current() != &context) return CUDA_ERROR_INVALID_CONTEXT
#define REQUIRE_CONTEXT if (told_of_loss) return LOST; else REQUIRE_CURRENT
#define LOST CUDA_ERROR_ILLEGAL_ADDRESS
/* The result of a call that releases something, after it has done so. */
#define GAVE_BACK(status) return told_of_loss ? LOST : (status)

struct CUctx_st { int users; };
/* The primary context of the device. */
static struct CUctx_st context;
static int told_of_loss;

/* The real driver crashes later, in a call of some other library. */
static void fail(const char *what) {
  fprintf(stderr, "libcuda in C: %s\n", what);
  abort();
}

#define STACK_MAX 16
static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;

static CUcontext current(void) {
  CUcontext top = depth == 0 ? NULL : stack[depth - 1];
  if (top != NULL && top->users == 0) fail("the current context was released");
  return top;
}

static int is_lost(void) {
  static int found;
  const char *path = getenv("LIBCUDA_IN_C_LOST");
  if (!found) found = path != NULL && access(path, F_OK) == 0;
  return found;
}

static int lacks(const char *mechanism) {
  const char *list = getenv("LIBCUDA_IN_C_LACKS");
  return list != NULL && strstr(list, mechanism) != NULL;
}

static int fd_of(CUmemGenericAllocationHandle handle) { return (int)(handle & 0xFFFFFFFF); }
static int is_handle(CUmemGenericAllocationHandle handle) { return (handle & HANDLE_MARK) == HANDLE_MARK; }
static void *host(CUdeviceptr pointer) { return (void *)(uintptr_t)pointer; }

/* ---- start, devices, contexts ---- */

CUresult cuInit(unsigned int flags) { return flags == 0 ? CUDA_SUCCESS : INVALID; }
CUresult cuDriverGetVersion(int *version) { *version = 13000; return CUDA_SUCCESS; }

CUresult cuGetErrorName(CUresult status, const char **name) {
  *name = status == INVALID ? "CUDA_ERROR_INVALID_VALUE" : NULL;
  return *name == NULL ? INVALID : CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) { *count = 1; return CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int length, CUdevice device) { snprintf(name, length, "libcuda in C %d", device); return CUDA_SUCCESS; }
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { memset(uuid->bytes, 0xAB, sizeof uuid->bytes); return device; }
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { *bytes = TOTAL_BYTES; return device; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  static const int launch_limits[] = {0, 1024, 1024, 1024, 64, 2147483647, 65535, 65535, 49152};
  *value = attribute >= 1 && attribute <= 8 ? launch_limits[attribute] : attribute > 0;
  return device;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *retained, CUdevice device) {
  __atomic_add_fetch(&context.users, 1, __ATOMIC_SEQ_CST);
  *retained = &context;
  return device;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (context.users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (__atomic_sub_fetch(&context.users, 1, __ATOMIC_SEQ_CST) == 0) {
    for (int i = 0; i < depth; i++) if (stack[i] == &context) fail("a context is released while it is current");
  }
  GAVE_BACK(device);
}
CUresult cuCtxPushCurrent_v2(CUcontext wanted) {
  REQUIRE(wanted != NULL && depth < STACK_MAX);
  if (wanted->users == 0) fail("a released context is made current");
  stack[depth++] = wanted;
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent_v2(CUcontext *popped) {
  if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  *popped = current();
  depth--;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext wanted) {
  current();
  if (depth > 0) depth--;
  return wanted == NULL ? CUDA_SUCCESS : cuCtxPushCurrent_v2(wanted);
}
CUresult cuCtxGetCurrent(CUcontext *found) { *found = current(); return CUDA_SUCCESS; }
CUresult cuCtxSetFlags(unsigned int flags) {
  REQUIRE(flags <= CU_CTX_FLAGS_MASK);
  return current() == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
/* A context of a program's own. Nothing else here works in it. */
CUresult cuCtxCreate_v2(CUcontext *created, unsigned int flags, CUdevice device) {
  REQUIRE(flags == 0 && device == 0 && depth < STACK_MAX);
  *created = calloc(1, sizeof **created);
  (*created)->users = 1;
  return cuCtxPushCurrent_v2(*created);
}
CUresult cuCtxDestroy_v2(CUcontext created) {
  REQUIRE(created != &context && created->users == 1);
  if (current() == created) depth--;
  created->users = 0;
  return CUDA_SUCCESS;
}
static void finish_copy(void);
static CUresult finish_streams(void);
CUresult cuCtxSynchronize(void) { REQUIRE_CURRENT; finish_copy(); return finish_streams(); }

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  REQUIRE_CONTEXT;
  *free_bytes = TOTAL_BYTES / 2;
  *total_bytes = TOTAL_BYTES;
  return CUDA_SUCCESS;
}

/* ---- virtual memory ---- */

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option) {
  REQUIRE(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  *bytes = GRANULARITY;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties, unsigned long long flags) {
  CUmemAllocationProp expected = {0};
  NEED("vmm");
  expected.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  expected.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  expected.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  REQUIRE_CURRENT;
  REQUIRE(flags == 0 && bytes % GRANULARITY == 0 && memcmp(properties, &expected, sizeof expected) == 0);
  if (bytes > TOTAL_BYTES) return CUDA_ERROR_OUT_OF_MEMORY;
  int fd = memfd_create("device memory", 0);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *handle = HANDLE_MARK | (unsigned)fd;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  REQUIRE(is_handle(handle));
  GAVE_BACK(close(fd_of(handle)) == 0 ? CUDA_SUCCESS : INVALID);
}

CUresult cuMemExportToShareableHandle(void *fd, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags) {
  REQUIRE(is_handle(handle) && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && flags == 0);
  *(int *)fd = dup(fd_of(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *fd, CUmemAllocationHandleType type) {
  struct stat found;
  REQUIRE_CURRENT;
  REQUIRE(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && (uintptr_t)fd < 1000000);
  REQUIRE(fstat((int)(uintptr_t)fd, &found) == 0 && found.st_size >= (off_t)GRANULARITY);
  *handle = HANDLE_MARK | (unsigned)dup((int)(uintptr_t)fd);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle) {
  REQUIRE(is_handle(handle));
  memset(properties, 0, sizeof *properties);
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = -2;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags) {
  REQUIRE_CURRENT;
  REQUIRE(alignment == 0 && hint == 0 && flags == 0);
  void *start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = (CUdeviceptr)(uintptr_t)start;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) { GAVE_BACK(munmap(host(pointer), bytes) == 0 ? CUDA_SUCCESS : INVALID); }

/* Where virtual memory is mapped. An entry with no bytes is free. */
#define MAPPED_MAX 4096
struct mapped { CUdeviceptr base; size_t bytes; CUmemGenericAllocationHandle handle; };
static struct mapped mapped_memory[MAPPED_MAX];

static struct mapped *mapped_at(CUdeviceptr pointer) {
  for (int i = 0; i < MAPPED_MAX; i++) {
    struct mapped *it = &mapped_memory[i];
    if (it->bytes > 0 && pointer >= it->base && pointer < it->base + it->bytes) return it;
  }
  return NULL;
}

/* WHY a duplicate: the handle may be released while the memory is mapped. */
static void remember_mapped(CUdeviceptr base, size_t bytes, int fd) {
  for (int i = 0; i < MAPPED_MAX; i++) {
    if (mapped_memory[i].bytes > 0) continue;
    mapped_memory[i] = (struct mapped){base, bytes, HANDLE_MARK | (unsigned)fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    return;
  }
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
  struct stat found;
  REQUIRE(offset == 0 && flags == 0 && is_handle(handle));
  REQUIRE(fstat(fd_of(handle), &found) == 0 && bytes <= (size_t)found.st_size);
  void *start = mmap(host(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd_of(handle), 0);
  if (start != MAP_FAILED) remember_mapped(pointer, bytes, fd_of(handle));
  return start == MAP_FAILED ? INVALID : CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
  struct mapped *found = mapped_at((CUdeviceptr)(uintptr_t)address);
  REQUIRE(found != NULL);
  *handle = HANDLE_MARK | (unsigned)dup(fd_of(found->handle));
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  struct mapped *known = mapped_at(pointer);
  if (known != NULL) {
    close(fd_of(known->handle));
    known->bytes = 0;
  }
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  GAVE_BACK(mmap(host(pointer), bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED ? INVALID : CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count) {
  REQUIRE(count == 1 && access->location.type == CU_MEM_LOCATION_TYPE_DEVICE && access->location.id == 0);
  REQUIRE(access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ || access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  int protection = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : PROT_READ | PROT_WRITE;
  return mprotect(host(pointer), bytes, protection) == 0 ? CUDA_SUCCESS : INVALID;
}

/* ---- host memory ---- */

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
  REQUIRE_CONTEXT;
  REQUIRE(flags == CU_MEMHOSTALLOC_PORTABLE);
  *pointer = malloc(bytes);
  return *pointer == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *pointer) { free(pointer); GAVE_BACK(CUDA_SUCCESS); }

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags) {
  unsigned int usual = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  NEED("words");
  REQUIRE_CONTEXT;
  REQUIRE(pointer != NULL && bytes > 0 && (flags & ~CU_MEMHOSTREGISTER_READ_ONLY) == usual);
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *pointer) { GAVE_BACK(pointer == NULL ? INVALID : CUDA_SUCCESS); }

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device_pointer, void *pointer, unsigned int flags) {
  *device_pointer = (CUdeviceptr)(uintptr_t)pointer;
  return flags == 0 ? CUDA_SUCCESS : INVALID;
}

/* ---- streams ---- */

enum kind { COPY, FILL_8, FILL_16, FILL_32, WAIT, WRITE, KERNEL, FREE_POOLED };
struct operation { enum kind kind; CUdeviceptr to; uint64_t value; size_t count; };
struct CUstream_st { struct operation queue[OPERATIONS_MAX]; int head; int tail; CUstream next; };
/* All streams, so that the context can wait for them. The default one has the handle NULL. */
static struct CUstream_st default_stream;
static CUstream streams = &default_stream;

/* Runs a launch and frees it; in modules.c. */
static void run_kernel(void *launch);
/* Defined in pools.c. */
static int free_pooled(CUdeviceptr pointer);
static int pooled_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer);

/* Returns whether the operation is done; a wait may not be. */
static int perform(struct operation *it) {
  switch (it->kind) {
    case COPY: memmove(host(it->to), host(it->value), it->count); return 1;
    case FILL_8: memset(host(it->to), (int)it->value, it->count); return 1;
    case FILL_16: for (size_t i = 0; i < it->count; i++) ((uint16_t *)host(it->to))[i] = (uint16_t)it->value; return 1;
    case FILL_32: for (size_t i = 0; i < it->count; i++) ((uint32_t *)host(it->to))[i] = (uint32_t)it->value; return 1;
    case WAIT: return (int64_t)(__atomic_load_n((uint64_t *)host(it->to), __ATOMIC_SEQ_CST) - it->value) >= 0;
    case WRITE: __atomic_store_n((uint64_t *)host(it->to), it->value, __ATOMIC_SEQ_CST); return 1;
    case KERNEL: run_kernel((void *)(uintptr_t)it->value); return 1;
    case FREE_POOLED: free_pooled(it->to); return 1;
  }
  return 1;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  REQUIRE_CONTEXT;
  REQUIRE(flags == CU_STREAM_NON_BLOCKING);
  *stream = calloc(1, sizeof **stream);
  (*stream)->next = streams;
  streams = *stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *found) {
  REQUIRE_CURRENT;
  *found = stream == NULL ? current() : &context;
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  CUstream *link = &streams;
  while (*link != NULL && *link != stream) link = &(*link)->next;
  if (*link != NULL) *link = stream->next;
  free(stream);
  GAVE_BACK(CUDA_SUCCESS);
}

/* Several threads may wait for one stream. */
static pthread_mutex_t queues = PTHREAD_MUTEX_INITIALIZER;

static CUresult advance(CUstream stream) {
  if (stream == NULL) stream = &default_stream;
  if (is_lost() && stream->head < stream->tail) told_of_loss = 1;
  if (told_of_loss) return LOST;
  while (stream->head < stream->tail && perform(&stream->queue[stream->head])) stream->head++;
  if (stream->head < stream->tail) return CUDA_ERROR_NOT_READY;
  stream->head = stream->tail = 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
  REQUIRE_CONTEXT;
  pthread_mutex_lock(&queues);
  CUresult status = advance(stream);
  pthread_mutex_unlock(&queues);
  return status;
}

static CUresult finish_streams(void) {
  /* One stream may wait for another, so all of them go on in turns. */
  for (;;) {
    int is_idle = 1;
    for (CUstream stream = streams; stream != NULL; stream = stream->next) {
      CUresult status = cuStreamQuery(stream);
      if (status == CUDA_ERROR_NOT_READY) is_idle = 0;
      else if (status != CUDA_SUCCESS) return status;
    }
    if (is_idle) return CUDA_SUCCESS;
    usleep(100);
  }
}

/* Called only for an idle stream, or for the default one. */
CUresult cuStreamSynchronize(CUstream stream) {
  REQUIRE_CURRENT;
  if (stream == NULL) finish_copy();
  return cuStreamQuery(stream) == CUDA_SUCCESS ? CUDA_SUCCESS : INVALID;
}

static CUresult enqueue(CUstream stream, enum kind kind, CUdeviceptr to, uint64_t value, size_t count) {
  REQUIRE_CONTEXT;
  if (stream == NULL) stream = &default_stream;
  pthread_mutex_lock(&queues);
  int is_full = stream->tail == OPERATIONS_MAX;
  if (!is_full) stream->queue[stream->tail++] = (struct operation){kind, to, value, count};
  if (!is_full && !is_lost()) advance(stream);
  pthread_mutex_unlock(&queues);
  return is_full ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return enqueue(stream, COPY, to, (uintptr_t)from, bytes);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return enqueue(stream, COPY, (CUdeviceptr)(uintptr_t)to, from, bytes);
}

/* Like the real driver's, a copy of little pageable memory returns before all of it has arrived. */
#define STAGED_MAX ((size_t)64 << 10)
static struct { CUdeviceptr to; size_t bytes; char content[STAGED_MAX]; } staged;

static void finish_copy(void) {
  memcpy(host(staged.to), staged.content, staged.bytes);
  staged.bytes = 0;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  REQUIRE_CURRENT;
  finish_copy();
  if (bytes > STAGED_MAX) {
    memcpy(host(to), from, bytes);
    return CUDA_SUCCESS;
  }
  staged.to = to;
  staged.bytes = bytes;
  memcpy(staged.content, from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  REQUIRE_CURRENT;
  finish_copy();
  memcpy(to, host(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  REQUIRE_CURRENT;
  memmove(host(to), host(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return enqueue(stream, COPY, to, from, bytes);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return enqueue(stream, FILL_8, to, value, count);
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return enqueue(stream, FILL_16, to, value, count);
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return enqueue(stream, FILL_32, to, value, count);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr pointer, cuuint64_t value, unsigned int flags) {
  REQUIRE(flags == CU_STREAM_WAIT_VALUE_GEQ && pointer % 8 == 0);
  return enqueue(stream, WAIT, pointer, value, 1);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr pointer, cuuint64_t value, unsigned int flags) {
  REQUIRE(flags == CU_STREAM_WRITE_VALUE_DEFAULT && pointer % 8 == 0);
  return enqueue(stream, WRITE, pointer, value, 1);
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations, unsigned int flags) {
  REQUIRE(count > 0 && count < 256 && flags == 0);
  for (unsigned int i = 0; i < count; i++) {
    /* The two structs of the union have the same layout. */
    struct CUstreamMemOpWaitValueParams_st *it = &operations[i].waitValue;
    REQUIRE(it->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || it->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64);
    REQUIRE(it->flags == 0 && it->address % 8 == 0);
  }
  for (unsigned int i = 0; i < count; i++) {
    struct CUstreamMemOpWaitValueParams_st *it = &operations[i].waitValue;
    CUresult status = enqueue(stream, it->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ? WAIT : WRITE, it->address, it->value64, 1);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

#include "events.c"
#include "legacy.c"
#include "modules.c"
#include "peers.c"
#include "pools.c"
