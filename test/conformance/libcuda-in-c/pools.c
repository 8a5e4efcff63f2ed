/*
 * Memory pools. Part of libcuda.c, which includes it. A pool is a memory file: a page with its
 * name, then blocks of whole pages. The exporter maps the file once, an importer maps each block.
 * It behaves like the real driver, faults included: a block imported twice is one mapping that the
 * first free ends, the descriptor of a pool has no close-on-exec, an importer first has no access,
 * an imported pool reports no statistics, and memory of a pool can be exported only after the pool.
 */
#include <fcntl.h>

#define POOL_PAGE ((size_t)4096)
#define POOL_MAGIC 0x4C4F4F504E492D43ull
#define POINTER_MAGIC 0x50544E494F502D43ull
#define POOLED_MAX 1024

struct pool_header { uint64_t magic, id, bytes; };
struct pointer_data { uint64_t magic, id, offset, bytes, unused[4]; };

struct CUmemPoolHandle_st {
  int fd, imported, exportable, exported, accessible, destroyed;
  uint64_t id;
  size_t bytes;
  char *base;
  cuuint64_t threshold, used, used_high, reserved, reserved_high;
};
struct pooled_block { CUmemoryPool pool; size_t offset, bytes; CUdeviceptr pointer; int ending; };
static struct pooled_block pooled_blocks[POOLED_MAX];

static size_t whole_pages(size_t bytes) { return (bytes + POOL_PAGE - 1) / POOL_PAGE * POOL_PAGE; }

static struct pooled_block *block_holding(CUdeviceptr pointer) {
  for (int i = 0; i < POOLED_MAX; i++) {
    if (pooled_blocks[i].pool != NULL && pointer >= pooled_blocks[i].pointer && pointer < pooled_blocks[i].pointer + pooled_blocks[i].bytes) return &pooled_blocks[i];
  }
  return NULL;
}

static struct pooled_block *pooled_block_at(CUdeviceptr pointer) {
  struct pooled_block *found = block_holding(pointer);
  return found != NULL && found->pointer == pointer && !found->ending ? found : NULL;
}

static int blocks_of(CUmemoryPool pool) {
  int count = 0;
  for (int i = 0; i < POOLED_MAX; i++) count += pooled_blocks[i].pool == pool;
  return count;
}

static struct pooled_block *add_block(CUmemoryPool pool, size_t offset, size_t bytes, CUdeviceptr pointer) {
  for (int i = 0; i < POOLED_MAX; i++) {
    if (pooled_blocks[i].pool != NULL) continue;
    pooled_blocks[i] = (struct pooled_block){pool, offset, bytes, pointer, 0};
    pool->used += bytes;
    if (pool->used > pool->used_high) pool->used_high = pool->used;
    if (offset + bytes - POOL_PAGE > pool->reserved) pool->reserved = offset + bytes - POOL_PAGE;
    if (pool->reserved > pool->reserved_high) pool->reserved_high = pool->reserved;
    return &pooled_blocks[i];
  }
  return NULL;
}

static void end_pool(CUmemoryPool pool) {
  if (!pool->destroyed || blocks_of(pool) > 0) return;
  if (pool->base != NULL) munmap(pool->base, POOL_PAGE + pool->bytes);
  close(pool->fd);
  free(pool);
}

/* Returns whether there was such a block. Called when a stream reaches the free. */
static int free_pooled(CUdeviceptr pointer) {
  struct pooled_block *it = block_holding(pointer);
  if (it == NULL || it->pointer != pointer) return 0;
  CUmemoryPool pool = it->pool;
  if (pool->imported) munmap(host(pointer), it->bytes);
  pool->used -= it->bytes;
  memset(it, 0, sizeof *it);
  end_pool(pool);
  return 1;
}

/* For cuMemGetAddressRange. */
static int pooled_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
  struct pooled_block *it = block_holding(pointer);
  if (it == NULL) return 0;
  *base = it->pointer;
  *bytes = it->bytes;
  return 1;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  NEED("pools");
  CUmemPoolProps expected = {0};
  expected.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  expected.handleTypes = properties->handleTypes;
  expected.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  expected.maxSize = properties->maxSize;
  static uint64_t count;
  REQUIRE_CONTEXT;
  REQUIRE(memcmp(properties, &expected, sizeof expected) == 0 && properties->maxSize > 0);
  REQUIRE(properties->handleTypes == CU_MEM_HANDLE_TYPE_NONE || properties->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUmemoryPool it = calloc(1, sizeof *it);
  it->bytes = whole_pages(properties->maxSize);
  it->exportable = properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
  it->accessible = 1;
  it->id = ((uint64_t)getpid() << 32) | ++count;
  it->fd = memfd_create("pool", MFD_CLOEXEC);
  if (it->fd < 0 || ftruncate(it->fd, (off_t)(POOL_PAGE + it->bytes)) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  it->base = mmap(NULL, POOL_PAGE + it->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, it->fd, 0);
  if (it->base == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *(struct pool_header *)it->base = (struct pool_header){POOL_MAGIC, it->id, it->bytes};
  *pool = it;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  REQUIRE(pool != NULL && !pool->destroyed);
  pool->destroyed = 1;
  end_pool(pool);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location) {
  REQUIRE(location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == 0);
  *flags = pool->accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count) {
  REQUIRE(count == 1 && access->location.type == CU_MEM_LOCATION_TYPE_DEVICE && access->location.id == 0);
  REQUIRE(access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  pool->accessible = 1;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  REQUIRE(attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && !pool->imported);
  pool->threshold = *(cuuint64_t *)value;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  cuuint64_t *out = value;
  REQUIRE(!pool->imported);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *out = pool->threshold; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *out = pool->reserved; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *out = pool->reserved_high; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *out = pool->used; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *out = pool->used_high; return CUDA_SUCCESS;
    default: return INVALID;
  }
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
  REQUIRE(!pool->imported);
  if (pool->exportable) return CUDA_SUCCESS;
  size_t kept = bytes;
  for (int i = 0; i < POOLED_MAX; i++) {
    size_t end = pooled_blocks[i].offset + pooled_blocks[i].bytes - POOL_PAGE;
    if (pooled_blocks[i].pool == pool && end > kept) kept = end;
  }
  if (kept < pool->reserved) pool->reserved = kept;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  REQUIRE_CONTEXT;
  REQUIRE(bytes > 0 && stream != NULL && !pool->imported && !pool->destroyed);
  size_t length = whole_pages(bytes), offset = POOL_PAGE;
  for (int i = 0; i < POOLED_MAX; i++) {
    struct pooled_block *it = &pooled_blocks[i];
    if (it->pool != pool || it->offset >= offset + length || it->offset + it->bytes <= offset) continue;
    offset = it->offset + it->bytes;
    i = -1;
  }
  if (offset + length > POOL_PAGE + pool->bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  struct pooled_block *it = add_block(pool, offset, length, (CUdeviceptr)(uintptr_t)(pool->base + offset));
  if (it == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = it->pointer;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  struct pooled_block *it = pooled_block_at(pointer);
  if (!told_of_loss) { REQUIRE_CURRENT; }
  REQUIRE(it != NULL && stream != NULL);
  it->ending = 1;
  return enqueue(stream, FREE_POOLED, pointer, 0, 0);
}

CUresult cuMemPoolExportToShareableHandle(void *fd, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags) {
  REQUIRE(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && flags == 0 && pool->exportable && !pool->imported);
  *(int *)fd = dup(pool->fd);
  pool->exported = 1;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *fd, CUmemAllocationHandleType type, unsigned long long flags) {
  struct pool_header header;
  REQUIRE_CONTEXT;
  REQUIRE(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && flags == 0 && (uintptr_t)fd < 1000000);
  REQUIRE(pread((int)(uintptr_t)fd, &header, sizeof header, 0) == sizeof header && header.magic == POOL_MAGIC);
  CUmemoryPool it = calloc(1, sizeof *it);
  it->fd = fcntl((int)(uintptr_t)fd, F_DUPFD_CLOEXEC, 0);
  it->imported = 1;
  it->id = header.id;
  it->bytes = header.bytes;
  *pool = it;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer) {
  struct pooled_block *it = pooled_block_at(pointer);
  REQUIRE_CONTEXT;
  REQUIRE(it != NULL && it->pool->exported && !it->pool->imported);
  struct pointer_data out = {POINTER_MAGIC, it->pool->id, it->offset, it->bytes, {0}};
  memcpy(data, &out, sizeof *data);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data) {
  struct pointer_data in;
  memcpy(&in, data, sizeof in);
  REQUIRE_CONTEXT;
  REQUIRE(pool->imported && in.magic == POINTER_MAGIC && in.id == pool->id && in.offset + in.bytes <= POOL_PAGE + pool->bytes);
  for (int i = 0; i < POOLED_MAX; i++) {
    struct pooled_block *it = &pooled_blocks[i];
    if (it->pool == NULL || !it->pool->imported || it->pool->id != in.id || it->offset != in.offset) continue;
    *pointer = it->pointer;
    return CUDA_SUCCESS;
  }
  void *start = mmap(NULL, in.bytes, pool->accessible ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, pool->fd, (off_t)in.offset);
  if (start == MAP_FAILED) return CUDA_ERROR_MAP_FAILED;
  struct pooled_block *it = add_block(pool, in.offset, in.bytes, (CUdeviceptr)(uintptr_t)start);
  if (it == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = it->pointer;
  return CUDA_SUCCESS;
}
