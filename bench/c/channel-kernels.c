/*
 * Kernels on both sides of a ring in GPU memory. The writer's kernel fills the slot with numbers
 * from the message's number on (iota). The reader's kernel computes from the slot into its own
 * memory (affine). The same loop: bench/actors/channel-kernels.ts
 */
#include "device-ring.h"
#include "kernels.h"

#define ELEMENTS (SLOT_BYTES / 4)
#define BLOCK_THREADS 256
/* Message numbers wrap here, so that a float can hold them. */
#define START_MAX 4096

static device_bytes own;

#ifdef HOST
static void prepare_kernels(void) {}
static void iota_on(lane stream, device_bytes to, float start) {
  (void)stream;
  for (int i = 0; i < ELEMENTS; i++) ((float *)to)[i] = (float)i + start;
}
static void affine_on(lane stream, device_bytes to, device_bytes from) {
  (void)stream;
  for (int i = 0; i < ELEMENTS; i++) ((float *)to)[i] = ((float *)from)[i] * 2 + 1;
}
#else
static CUfunction iota, affine;

static void prepare_kernels(void) {
  CUmodule module;
  CHECK(cuModuleLoadDataEx(&module, kernel_source, 0, NULL, NULL));
  CHECK(cuModuleGetFunction(&iota, module, "iota"));
  CHECK(cuModuleGetFunction(&affine, module, "affine"));
}
static void launch_on(CUstream stream, CUfunction kernel, void **values) {
  CHECK(cuLaunchKernel(kernel, ELEMENTS / BLOCK_THREADS, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, values, NULL));
}
static void iota_on(CUstream stream, CUdeviceptr to, float start) {
  uint64_t count = ELEMENTS;
  float step = 1;
  launch_on(stream, iota, (void *[]){&to, &count, &start, &step});
}
static void affine_on(CUstream stream, CUdeviceptr to, CUdeviceptr from) {
  uint64_t count = ELEMENTS;
  float a = 2, b = 1;
  launch_on(stream, affine, (void *[]){&to, &from, &count, &a, &b});
}
#endif

static void prepare_writer(int ordinal) {
  (void)ordinal;
  prepare_kernels();
}
static void fill_slot(lane stream, device_bytes slot, long i) { iota_on(stream, slot, (float)(i % START_MAX)); }
static void finish_writer(long total) { (void)total; }

static void prepare_reader(int ordinal) {
  (void)ordinal;
  prepare_kernels();
  own = allocate_bytes(SLOT_BYTES);
}
static void empty_slot(lane stream, device_bytes slot, long i) {
  (void)i;
  affine_on(stream, own, slot);
}
static void finish_reader(long total) {
  static float last[ELEMENTS];
  download(last, own, SLOT_BYTES);
  for (int i = 0; i < ELEMENTS; i++) {
    float wanted = ((float)i + (float)(total % START_MAX)) * 2 + 1;
    if (last[i] != wanted) fail("element %d of the last message is %f, wanted %f", i, last[i], wanted);
  }
}

int main(int argc, char **argv) {
  struct side writer = {prepare_writer, fill_slot, finish_writer}, reader = {prepare_reader, empty_slot, finish_reader};
  return run_device_ring("channel-kernels", writer, reader, argc, argv);
}
