/*
 * Legacy memory and its handles. Part of libcuda.c, which includes it after events.c. Stricter than
 * a real driver: only the base of a block has a handle, and one handle is opened once at a time.
 */
#define BLOCKS_MAX 256

struct block { CUdeviceptr base; size_t bytes; int fd; struct handle_content from; };
static struct block blocks[BLOCKS_MAX];

static struct block *block_at(CUdeviceptr pointer) {
  for (int i = 0; i < BLOCKS_MAX; i++) {
    if (blocks[i].base != 0 && pointer >= blocks[i].base && pointer < blocks[i].base + blocks[i].bytes) return &blocks[i];
  }
  return NULL;
}

static CUresult map_block(CUdeviceptr *pointer, size_t bytes, int fd, struct handle_content from) {
  for (int i = 0; i < BLOCKS_MAX; i++) {
    if (blocks[i].base != 0) continue;
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (start == MAP_FAILED) return CUDA_ERROR_MAP_FAILED;
    blocks[i] = (struct block){(CUdeviceptr)(uintptr_t)start, bytes, fd, from};
    *pointer = blocks[i].base;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult unmap_block(struct block *block) {
  munmap(host(block->base), block->bytes);
  close(block->fd);
  block->base = 0;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  REQUIRE_CONTEXT;
  REQUIRE(bytes > 0);
  if (bytes > TOTAL_BYTES) return CUDA_ERROR_OUT_OF_MEMORY;
  int fd = memfd_create("legacy memory", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  return map_block(pointer, bytes, fd, (struct handle_content){0});
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  struct block *block = block_at(pointer);
  if (block == NULL && free_pooled(pointer)) return CUDA_SUCCESS;
  REQUIRE_CONTEXT;
  REQUIRE(block != NULL && block->base == pointer && block->from.pid == 0);
  return unmap_block(block);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
  struct block *block = block_at(pointer);
  struct mapped *mapped = mapped_at(pointer);
  if (block == NULL && pooled_range(base, bytes, pointer)) return CUDA_SUCCESS;
  REQUIRE_CONTEXT;
  if (mapped != NULL) {
    *base = mapped->base;
    *bytes = mapped->bytes;
    return CUDA_SUCCESS;
  }
  REQUIRE(block != NULL);
  *base = block->base;
  *bytes = block->bytes;
  return CUDA_SUCCESS;
}

/* Mapped memory that is no block is of another mechanism. */
CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  unsigned char resident;
  REQUIRE_CONTEXT;
  REQUIRE(attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE || attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  struct block *block = block_at(pointer);
  REQUIRE(block != NULL || mincore(host(pointer & ~(CUdeviceptr)4095), 1, &resident) == 0);
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *(int *)value = 0;
  else *(unsigned char *)value = block != NULL;
  return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
  NEED("legacy");
  struct block *block = block_at(pointer);
  REQUIRE_CONTEXT;
  REQUIRE(block != NULL && block->base == pointer && block->from.pid == 0);
  struct handle_content content = {MEMORY_MAGIC, 0, (uint32_t)getpid(), (uint32_t)block->fd, block->bytes};
  memset(handle->reserved, 0, sizeof handle->reserved);
  memcpy(handle->reserved, &content, sizeof content);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags) {
  struct handle_content content;
  struct stat found;
  int own;
  REQUIRE_CONTEXT;
  REQUIRE(flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  int fd = open_handle(handle.reserved, MEMORY_MAGIC, O_RDWR, &own, &content);
  if (own) return CUDA_ERROR_INVALID_CONTEXT;
  if (fd < 0) return CUDA_ERROR_INVALID_HANDLE;
  for (int i = 0; i < BLOCKS_MAX; i++) {
    if (blocks[i].base == 0 || memcmp(&blocks[i].from, &content, sizeof content) != 0) continue;
    close(fd);
    return CUDA_ERROR_ALREADY_MAPPED;
  }
  if (fstat(fd, &found) != 0 || (size_t)found.st_size != content.bytes) {
    close(fd);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return map_block(pointer, content.bytes, fd, content);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  struct block *block = block_at(pointer);
  REQUIRE_CONTEXT;
  REQUIRE(block != NULL && block->base == pointer && block->from.pid != 0);
  return unmap_block(block);
}
