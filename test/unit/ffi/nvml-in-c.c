/* A stand-in for libnvidia-ml.so.1 with one GPU, for the signatures in src/ffi/libnvml.ts. */
#include <stdint.h>
#include <string.h>

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct {
  unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct {
  unsigned int pid;
  unsigned long long usedGpuMemory;
  unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

static int gpu;

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int result) { return result == 2 ? "Invalid Argument" : "Unknown"; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
  *count = 1;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
  *device = (nvmlDevice_t)&gpu;
  return index == 0 ? 0 : 2;
}

static int copy(nvmlDevice_t device, const char *text, char *to, unsigned int length) {
  if (device != (nvmlDevice_t)&gpu || strlen(text) >= length) return 2;
  strcpy(to, text);
  return 0;
}

int nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
  return copy(device, "GPU-01234567-89ab-cdef-0123-456789abcdef", uuid, length);
}

int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
  return copy(device, "NVIDIA Stand-in", name, length);
}

int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  if (device != (nvmlDevice_t)&gpu) return 2;
  *memory = (nvmlMemory_t){.total = 80ull << 30, .free = 70ull << 30, .used = 10ull << 30};
  return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                            nvmlProcessInfo_t *processes) {
  if (device != (nvmlDevice_t)&gpu || *count < 2) return 7;
  processes[0] = (nvmlProcessInfo_t){.pid = 4242, .usedGpuMemory = 5ull << 30};
  processes[1] = (nvmlProcessInfo_t){.pid = 4243, .usedGpuMemory = UINT64_MAX};
  *count = 2;
  return 0;
}
