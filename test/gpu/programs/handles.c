/*
 * Arrays by 64-byte handles, to and from a program in C, for test/gpu/other-programs.test.ts.
 *
 *     handles share                      shares float32 elements, waits for a line, prints the first three
 *     handles open HANDLE OFFSET COUNT   opens float32 elements, prints them, doubles each in place
 *
 * Every line of output is JSON. Handles are in hexadecimal. Sharing begins at element 100 of i + 0.5.
 */
#include "../../../bench/c/cuda-driver.h"

#define COUNT 1000000
#define BEFORE 100
/* A whole number of 2 MiB, or the driver shares neighbours, too. */
#define BLOCK_BYTES ((size_t)4 << 20)

static void copy_out(float *to, CUdeviceptr from, size_t count, CUstream stream) {
  CHECK(cuMemcpyDtoHAsync(to, from, count * sizeof *to, stream));
  finish(stream);
}

static void copy_in(CUdeviceptr to, const float *from, size_t count, CUstream stream) {
  CHECK(cuMemcpyHtoDAsync(to, from, count * sizeof *from, stream));
  finish(stream);
}

static void share_array(float *values, CUstream stream) {
  CUipcMemHandle handle;
  CUdeviceptr block, part;
  CHECK(cuMemAlloc(&block, BLOCK_BYTES));
  part = block + BEFORE * sizeof *values;
  for (long i = 0; i < COUNT; i++) values[i] = (float)i + 0.5f;
  copy_in(block, values, COUNT, stream);
  CHECK(cuIpcGetMemHandle(&handle, block));
  printf("{\"handle\":\"");
  for (size_t i = 0; i < sizeof handle.reserved; i++) printf("%02x", (unsigned char)handle.reserved[i]);
  printf("\",\"byteOffset\":%zu}\n", BEFORE * sizeof *values);
  fflush(stdout);
  getchar();
  copy_out(values, part, 3, stream);
  printf("[%g,%g,%g]\n", values[0], values[1], values[2]);
}

static void open_array(float *values, CUstream stream, char **argv) {
  CUipcMemHandle handle;
  CUdeviceptr block, part;
  size_t count = strtoul(argv[4], NULL, 10);
  double sum = 0;
  if (strlen(argv[2]) != 2 * sizeof handle.reserved || count > COUNT) fail("not a handle, or too many elements");
  for (size_t i = 0; i < sizeof handle.reserved; i++) {
    unsigned byte;
    if (sscanf(argv[2] + 2 * i, "%2x", &byte) != 1) fail("not a handle");
    handle.reserved[i] = (char)byte;
  }
  CHECK(cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  part = block + strtoul(argv[3], NULL, 10);
  copy_out(values, part, count, stream);
  for (size_t i = 0; i < count; i++) sum += values[i];
  printf("{\"first\":[%g,%g,%g],\"sum\":%.17g}\n", values[0], values[1], values[2], sum);
  for (size_t i = 0; i < count; i++) values[i] *= 2;
  copy_in(part, values, count, stream);
  CHECK(cuIpcCloseMemHandle(block));
}

int main(int argc, char **argv) {
  float *values = malloc(COUNT * sizeof *values);
  if (values == NULL) fail("no memory");
  open_device(0);
  CUstream stream = create_stream();
  if (argc == 2 && strcmp(argv[1], "share") == 0) share_array(values, stream);
  else if (argc == 5 && strcmp(argv[1], "open") == 0) open_array(values, stream, argv);
  else fail("Usage: %s share | open HANDLE OFFSET COUNT", argv[0]);
  return 0;
}
