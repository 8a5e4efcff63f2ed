/*
 * Opens and closes memory of another process by its 64-byte handle while it is already open. The
 * driver then only counts, and maps nothing. The same loop: bench/actors/legacy-reopen.ts
 */
#include "cuda-driver.h"

#define BLOCK_BYTES (2 * 1024 * 1024)

static void opener(struct arguments arguments, int socket) {
  struct samples samples = {0};
  CUipcMemHandle handle;
  CUdeviceptr kept, again;
  char done = 1;
  open_device(arguments.ordinal);
  receive_message(socket, &handle, sizeof handle);
  CHECK(cuIpcOpenMemHandle(&kept, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  for (long i = -arguments.warm_up; i < arguments.iterations; i += CALLS_PER_SAMPLE) {
    double start = now_us();
    for (int call = 0; call < CALLS_PER_SAMPLE; call++) {
      CHECK(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
      CHECK(cuIpcCloseMemHandle(again));
    }
    if (i >= 0) add_sample(&samples, (now_us() - start) / CALLS_PER_SAMPLE);
  }
  CHECK(cuIpcCloseMemHandle(kept));
  send_message(socket, &done, 1);
  report("legacy-reopen", arguments.iterations, &samples);
}

static void exporter(struct arguments arguments, int socket) {
  CUdeviceptr block;
  CUipcMemHandle handle;
  char done = 0;
  open_device(arguments.ordinal);
  CHECK(cuMemAlloc(&block, BLOCK_BYTES));
  CHECK(cuIpcGetMemHandle(&handle, block));
  send_message(socket, &handle, sizeof handle);
  receive_message(socket, &done, 1);
}

int main(int argc, char **argv) { return run_pair(opener, exporter, parse_arguments(argc, argv)); }
