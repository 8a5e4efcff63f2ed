/*
 * Allocates from a shareable pool and frees, on one stream. The same loop:
 * bench/actors/pool-alloc-free.ts
 */
#include "cuda-driver.h"

#define MIB (1024 * 1024)

int main(int argc, char **argv) {
  struct arguments arguments = parse_arguments(argc, argv);
  struct samples samples = {0};
  CUmemPoolProps properties = {0};
  CUmemoryPool pool;
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = arguments.ordinal;
#if CUDA_VERSION >= 12020
  properties.maxSize = 64 * MIB;
#endif
  open_device(arguments.ordinal);
  CHECK(cuMemPoolCreate(&pool, &properties));
  CUstream stream = create_stream();
  for (long done = -arguments.warm_up; done < arguments.iterations; done += CALLS_PER_SAMPLE) {
    double start = now_us();
    for (int i = 0; i < CALLS_PER_SAMPLE; i++) {
      CUdeviceptr pointer;
      CHECK(cuMemAllocFromPoolAsync(&pointer, MIB, pool, stream));
      CHECK(cuMemFreeAsync(pointer, stream));
    }
    double end = now_us();
    finish(stream);
    if (done >= 0) add_sample(&samples, (end - start) / CALLS_PER_SAMPLE);
  }
  report("pool-alloc-free", arguments.iterations, &samples);
  return 0;
}
