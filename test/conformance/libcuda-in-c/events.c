/*
 * Events and their handles. Part of libcuda.c, which includes it. An event is a page of shared
 * memory: a count of recordings, and a word for each of the last ones, which becomes the
 * recording's number when it is done. Pages stay mapped for good, because streams may still write
 * to them.
 */
#include <fcntl.h>

#define RECORDINGS_MAX 64
#define EVENT_MAGIC 0xE7E47E4Du
#define MEMORY_MAGIC 0x4D454D4Fu

/* The 64 bytes of a handle here. The pid is at the real driver's offset. */
struct handle_content { uint32_t magic; uint32_t unused; uint32_t pid; uint32_t fd; uint64_t bytes; };

struct event_page { uint64_t recorded; uint64_t done[RECORDINGS_MAX]; };
struct CUevent_st { int fd; struct event_page *page; };

/* Opens another process's file, or returns a negative number; sets *own if it is this process's. */
static int open_handle(const char *reserved, uint32_t magic, int flags, int *own, struct handle_content *content) {
  char path[64];
  memcpy(content, reserved, sizeof *content);
  *own = content->pid == (uint32_t)getpid();
  if (content->magic != magic || *own) return -1;
  snprintf(path, sizeof path, "/proc/%u/fd/%u", content->pid, content->fd);
  return open(path, flags | O_CLOEXEC);
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  REQUIRE_CONTEXT;
  REQUIRE(flags == (CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  int fd = memfd_create("event", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(struct event_page)) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *event = malloc(sizeof **event);
  (*event)->fd = fd;
  (*event)->page = mmap(NULL, sizeof(struct event_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return (*event)->page == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
  if (!told_of_loss) REQUIRE_CONTEXT;
  if (event->fd >= 0) close(event->fd);
  free(event);
  GAVE_BACK(CUDA_SUCCESS);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  REQUIRE_CONTEXT;
  REQUIRE(event->fd >= 0);
  uint64_t number = __atomic_add_fetch(&event->page->recorded, 1, __ATOMIC_SEQ_CST), earlier = number - 1;
  /* Like the real driver, the stream waits for the previous recording. */
  if (earlier > 0) {
    CUresult waited = enqueue(stream, WAIT, (CUdeviceptr)(uintptr_t)&event->page->done[earlier % RECORDINGS_MAX], earlier, 1);
    if (waited != CUDA_SUCCESS) return waited;
  }
  return enqueue(stream, WRITE, (CUdeviceptr)(uintptr_t)&event->page->done[number % RECORDINGS_MAX], number, 1);
}

CUresult cuEventQuery(CUevent event) {
  REQUIRE_CONTEXT;
  uint64_t number = __atomic_load_n(&event->page->recorded, __ATOMIC_SEQ_CST);
  uint64_t done = __atomic_load_n(&event->page->done[number % RECORDINGS_MAX], __ATOMIC_SEQ_CST);
  if (done >= number) return CUDA_SUCCESS;
  if (is_lost()) told_of_loss = 1;
  return told_of_loss ? LOST : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  REQUIRE_CONTEXT;
  REQUIRE(flags == CU_EVENT_WAIT_DEFAULT);
  uint64_t number = __atomic_load_n(&event->page->recorded, __ATOMIC_SEQ_CST);
  return enqueue(stream, WAIT, (CUdeviceptr)(uintptr_t)&event->page->done[number % RECORDINGS_MAX], number, 1);
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event) {
  NEED("events");
  REQUIRE_CONTEXT;
  REQUIRE(event->fd >= 0);
  struct handle_content content = {EVENT_MAGIC, 0, (uint32_t)getpid(), (uint32_t)event->fd, 0};
  memset(handle->reserved, 0, sizeof handle->reserved);
  memcpy(handle->reserved, &content, sizeof content);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle) {
  struct handle_content content;
  int own;
  REQUIRE_CONTEXT;
  int fd = open_handle(handle.reserved, EVENT_MAGIC, O_RDONLY, &own, &content);
  if (own) return CUDA_ERROR_INVALID_CONTEXT;
  if (fd < 0) return CUDA_ERROR_MAP_FAILED;
  struct event_page *page = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (page == MAP_FAILED) return CUDA_ERROR_MAP_FAILED;
  *event = malloc(sizeof **event);
  (*event)->fd = -1;
  (*event)->page = page;
  return CUDA_SUCCESS;
}
