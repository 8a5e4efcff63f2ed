/*
 * Opens a published array by the client in C, and by nothing but one round trip of the socket and
 * a mapping: client-open ITERATIONS ORDINAL client|floor. It prints one measurement.
 */
#include "common.h"
#include "cuda_ipc.h"
#ifndef HOST
#define CUDA_FUNCTIONS(use) \
  use(cuInit) use(cuDeviceGet) use(cuDevicePrimaryCtxRetain) use(cuCtxSetCurrent) \
  use(cuGetErrorName) use(cuStreamCreate) use(cuStreamQuery) use(cuMemImportFromShareableHandle) \
  use(cuMemAddressReserve) use(cuMemMap) use(cuMemSetAccess) use(cuMemRelease) use(cuMemUnmap) \
  use(cuMemAddressFree)
#include "cuda-driver.h"
#endif
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/un.h>

#define NAME "open-by-name"
#define BYTES (1024 * 1024)

static cuda_ipc_error error;

static void open_by_client(cuda_ipc_hub *hub, struct samples *samples) {
  double start = now_us();
  cuda_ipc_array *array = cuda_ipc_open(hub, NAME, CUDA_IPC_READ, 0, &error);
  if (samples != NULL) add_sample(samples, now_us() - start);
  if (array == NULL) cuda_ipc_die(&error);
  cuda_ipc_array_close(array);
}

static int dial(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  memcpy(address.sun_path, path, strlen(path));
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
    fail("connect: %s", strerror(errno));
  return fd;
}

/* Sends one request and receives its answer, and the first descriptor that comes with it. */
static int round_trip(int socket, const char *request, char *answer, size_t room) {
  char control[CMSG_SPACE(16 * sizeof(int))];
  struct iovec vector = {answer, room - 1};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
                           .msg_controllen = sizeof control};
  int fd = -1;
  send_message(socket, request, strlen(request));
  ssize_t length = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (length <= 0) fail("the hub hung up");
  answer[length] = 0;
  struct cmsghdr *part = CMSG_FIRSTHDR(&message);
  if (part != NULL) memcpy(&fd, CMSG_DATA(part), sizeof fd);
  return fd;
}

#ifdef HOST
static void *map_memory(int fd) { return mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0); }
static void unmap_memory(void *memory) { munmap(memory, BYTES); }
#else
static int ordinal;
static size_t allocated = 2 * BYTES;
static CUdeviceptr map_memory(int fd) {
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, ordinal}, CU_MEM_ACCESS_FLAGS_PROT_READ};
  CHECK(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CHECK(cuMemAddressReserve(&address, allocated, 0, 0, 0));
  CHECK(cuMemMap(address, allocated, 0, handle, 0));
  CHECK(cuMemSetAccess(address, allocated, &access, 1));
  CHECK(cuMemRelease(handle));
  return address;
}
static void unmap_memory(CUdeviceptr address) {
  CHECK(cuMemUnmap(address, allocated));
  CHECK(cuMemAddressFree(address, allocated));
}
#endif

static void open_by_hand(int socket, long number, struct samples *samples) {
  char request[256], answer[4096];
  snprintf(request, sizeof request, "{\"v\":1,\"id\":%ld,\"op\":\"open\",\"name\":\"" NAME "\","
           "\"access\":\"read\",\"wait\":false}", 2 * number);
  double start = now_us();
  int fd = round_trip(socket, request, answer, sizeof answer);
  if (fd < 0) fail("no descriptor: %s", answer);
  __auto_type memory = map_memory(fd);
  close(fd);
  if (samples != NULL) add_sample(samples, now_us() - start);
  unmap_memory(memory);
  char *lease = strstr(answer, "\"lease\":");
  if (lease == NULL) fail("no lease: %s", answer);
  snprintf(request, sizeof request, "{\"v\":1,\"id\":%ld,\"op\":\"release\",\"lease\":%ld}",
           2 * number + 1, atol(lease + 8));
  round_trip(socket, request, answer, sizeof answer);
}

int main(int argc, char **argv) {
  struct arguments arguments = parse_arguments(argc, argv);
  struct samples samples = {0};
  const char *path = getenv("CUDA_IPC_SOCKET");
  bool by_client = argc > 3 && strcmp(argv[3], "client") == 0;
  char device[16] = "host";
#ifndef HOST
  snprintf(device, sizeof device, "cuda:%d", arguments.ordinal);
  ordinal = arguments.ordinal;
  open_device(ordinal);
#endif
  cuda_ipc_hub *hub = cuda_ipc_connect(path, "client-open", CUDA_IPC_TIMEOUT_MS, &error);
  if (hub == NULL) cuda_ipc_die(&error);
  cuda_ipc_create_options options = {.dtype = "uint8", .rank = 1, .device = device,
                                     .shape = (int64_t[]){BYTES}};
  cuda_ipc_array *array = cuda_ipc_create(hub, NAME, &options, &error);
  if (array == NULL || cuda_ipc_publish(array, &error) != 0) cuda_ipc_die(&error);
  int socket = dial(path);
  char answer[4096];
  round_trip(socket, "{\"v\":1,\"id\":1,\"op\":\"hello\",\"client\":{\"version\":\"0\","
             "\"program\":\"floor\"}}", answer, sizeof answer);
  for (long i = 0; i < arguments.warm_up + arguments.iterations; i++) {
    struct samples *counted = i < arguments.warm_up ? NULL : &samples;
    if (by_client) open_by_client(hub, counted);
    else open_by_hand(socket, i + 1, counted);
  }
  report("client-open", arguments.iterations, &samples);
  close(socket);
  cuda_ipc_array_close(array);
  cuda_ipc_disconnect(hub);
  return 0;
}
