/*
 * Exchanges legacy memory by a bare handle in a file, with the calls behind cudaIpcGetMemHandle and cudaIpcOpenMemHandle alone.
 * handle write PATH [PAUSE]: makes COUNT integers 0, 1, 2, ..., writes their handle, and after a line says the first one.
 * handle read PATH: opens the handle, checks the integers and makes them negative.
 */
#include "../../support/c/cuda-calls.h"

#define COUNT 1024
#define BLOCK_BYTES (2 * 1024 * 1024)

static int32_t values[COUNT];

static void write_memory(const char *path, size_t pause_after) {
  CUdeviceptr block;
  CUipcMemHandle handle;
  for (int i = 0; i < COUNT; i++) values[i] = i;
  CHECK(cuMemAlloc(&block, BLOCK_BYTES));
  CHECK(cuMemcpyHtoD(block, values, sizeof values));
  CHECK(cuCtxSynchronize());
  CHECK(cuIpcGetMemHandle(&handle, block));
  write_handle(path, &handle, pause_after);
  say("written");
  await_line();
  CHECK(cuMemcpyDtoH(values, block, sizeof values));
  say("%d", values[0]);
  CHECK(cuMemFree(block));
}

static void read_memory(const char *path) {
  CUdeviceptr block;
  CUipcMemHandle handle;
  read_handle(path, &handle);
  CHECK(cuIpcOpenMemHandle(&block, handle, LAZY_PEER_ACCESS));
  CHECK(cuMemcpyDtoH(values, block, sizeof values));
  for (int i = 0; i < COUNT; i++)
    if (values[i] != i) fail("element %d is %d", i, values[i]);
  for (int i = 0; i < COUNT; i++) values[i] = -i;
  CHECK(cuMemcpyHtoD(block, values, sizeof values));
  CHECK(cuCtxSynchronize());
  CHECK(cuIpcCloseMemHandle(block));
  say("read");
}

int main(int argc, char **argv) {
  open_gpu();
  if (argc > 2 && strcmp(argv[1], "write") == 0) write_memory(argv[2], argc > 3 ? atoi(argv[3]) : HANDLE_BYTES);
  else if (argc > 2 && strcmp(argv[1], "read") == 0) read_memory(argv[2]);
  else fail("usage: handle write|read PATH");
  return 0;
}
