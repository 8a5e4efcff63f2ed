/*
 * Exchanges GPU memory (VMM) by a descriptor with its size (8 bytes, little-endian) on a Unix socket, and waits for an
 * acknowledgement. fd-peer TYPE connect|listen PATH send|receive
 */
#include "../../support/c/cuda-calls.h"
#include "../../support/c/fd-messages.h"

#define BYTES (2 * 1024 * 1024)

static unsigned char content[BYTES];

static void send_memory(int socket) {
  CUmemAllocationProp prop = shareable();
  unsigned long long handle;
  uint64_t size = BYTES;
  int fd;
  CHECK(cuMemCreate(&handle, BYTES, &prop, 0));
  CUdeviceptr start = map_whole(handle, BYTES);
  for (int i = 0; i < BYTES; i++) content[i] = i % 251;
  CHECK(cuMemcpyHtoD(start, content, BYTES));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemExportToShareableHandle(&fd, handle, HANDLE_POSIX_FD, 0));
  send_fds(socket, &size, 8, &fd, 1);
  await_acknowledgement(socket);
  CHECK(cuMemcpyDtoH(content, start, BYTES));
  say("%d", content[0]);
}

static void receive_memory(int socket) {
  unsigned long long handle;
  uint64_t size;
  int fd = receive_fd(socket, &size, sizeof size);
  if (size != BYTES) fail("%lu bytes came", size);
  CHECK(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd, HANDLE_POSIX_FD));
  CUdeviceptr start = map_whole(handle, size);
  CHECK(cuMemcpyDtoH(content, start, BYTES));
  for (int i = 0; i < BYTES; i++)
    if (content[i] != i % 251) fail("byte %d is %d", i, content[i]);
  content[0] = 42;
  CHECK(cuMemcpyHtoD(start, content, BYTES));
  CHECK(cuCtxSynchronize());
  say("received");
  acknowledge(socket);
}

int main(int argc, char **argv) {
  if (argc != 5) fail("usage: fd-peer TYPE connect|listen PATH send|receive");
  open_gpu();
  int socket = strcmp(argv[2], "listen") == 0 ? accept_at(argv[1], argv[3]) : connect_to(argv[1], argv[3]);
  if (strcmp(argv[4], "send") == 0) send_memory(socket);
  else receive_memory(socket);
  return 0;
}
