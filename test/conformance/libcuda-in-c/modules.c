/*
 * Modules and kernels. Part of libcuda.c, which includes it.
 *
 * A module is a text that begins with `// module`. Each line `// kernel NAME SIZE SIZE ...`
 * declares a kernel with the sizes of its parameters. The rest is ignored, so the same text can be
 * PTX for a real driver. A line `// error WORDS` makes an image that does not load, with these
 * words in the log. The name of a kernel chooses what it does:
 *
 *     add (u64 words, u32 count, u32 value)    adds the value to each of the words that the launch has a thread for
 *     store (u64 to, ...)                      stores parameter i at to + 16 * i, from parameter 1 on
 *     shape (u64 to)                           stores the launch's grid, block and shared bytes as 7 words
 */

#define KERNELS_MAX 16
#define PARAMETERS_MAX 16

struct CUmod_st;
struct CUfunc_st { struct CUmod_st *module; char name[64]; size_t count; size_t sizes[PARAMETERS_MAX]; int loaded; };
struct CUmod_st { struct CUfunc_st kernels[KERNELS_MAX]; int count; };
struct launch { struct CUfunc_st *kernel; uint32_t shape[7]; unsigned char *values[PARAMETERS_MAX]; };

static int parse_kernel(CUmodule module, const char *line) {
  if (module->count == KERNELS_MAX) return 0;
  CUfunction kernel = &module->kernels[module->count++];
  int used = 0;
  kernel->module = module;
  if (sscanf(line, "%63s%n", kernel->name, &used) != 1) return 0;
  for (line += used; *line == ' '; kernel->count++) {
    char *end;
    if (kernel->count == PARAMETERS_MAX) return 0;
    kernel->sizes[kernel->count] = strtoul(line, &end, 10);
    line = end;
  }
  return 1;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values) {
  const char *error;
  NEED("kernels");
  REQUIRE_CONTEXT;
  REQUIRE(count == 2 && options[0] == CU_JIT_ERROR_LOG_BUFFER && options[1] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  size_t log_bytes = (size_t)values[1];
  if (strncmp(image, "// module\n", 10) != 0) return CUDA_ERROR_INVALID_IMAGE;
  if ((error = strstr(image, "// error ")) != NULL) {
    /* Like the driver's own compiler, cut off at the end of the buffer. */
    snprintf(values[0], log_bytes, "ptxas application ptx input, line 7; fatal   : %s", error + 9);
    return CUDA_ERROR_INVALID_PTX;
  }
  *module = calloc(1, sizeof **module);
  for (const char *line = image; (line = strstr(line, "// kernel ")) != NULL; line += 10) {
    if (!parse_kernel(*module, line + 10)) return INVALID;
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  if (!told_of_loss) REQUIRE_CONTEXT;
  free(module);
  GAVE_BACK(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction *kernel, CUmodule module, const char *name) {
  REQUIRE_CONTEXT;
  for (int i = 0; i < module->count; i++) {
    *kernel = &module->kernels[i];
    if (strcmp((*kernel)->name, name) == 0) return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncLoad(CUfunction kernel) { kernel->loaded = 1; return CUDA_SUCCESS; }

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction kernel) {
  REQUIRE(attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK && kernel->module != NULL);
  *value = 512;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction kernel, size_t index, size_t *offset, size_t *bytes) {
  REQUIRE(index < kernel->count);
  *bytes = kernel->sizes[index];
  *offset = 0;
  for (size_t i = 0; i < index; i++) *offset += (kernel->sizes[i] + 7) / 8 * 8;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction kernel, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **parameters, void **extra) {
  struct launch *it = calloc(1, sizeof *it);
  REQUIRE_CONTEXT;
  REQUIRE(kernel->loaded && stream != NULL && extra == NULL && block_x * block_y * block_z <= 512);
  *it = (struct launch){kernel, {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes}, {0}};
  for (int i = 0; i < 6; i++) REQUIRE(it->shape[i] > 0);
  for (size_t i = 0; i < kernel->count; i++) {
    it->values[i] = malloc(kernel->sizes[i]);
    memcpy(it->values[i], parameters[i], kernel->sizes[i]);
  }
  return enqueue(stream, KERNEL, 0, (uintptr_t)it, 0);
}

static uint64_t word_of(struct launch *it, int index) {
  uint64_t word = 0;
  memcpy(&word, it->values[index], it->kernel->sizes[index]);
  return word;
}

static void run_kernel(void *launch) {
  struct launch *it = launch;
  char *to = host(word_of(it, 0));
  if (strcmp(it->kernel->name, "add") == 0) {
    uint64_t threads = (uint64_t)it->shape[0] * it->shape[3];
    for (uint64_t i = 0; i < word_of(it, 1) && i < threads; i++) ((uint32_t *)to)[i] += (uint32_t)word_of(it, 2);
  } else if (strcmp(it->kernel->name, "store") == 0) {
    for (size_t i = 1; i < it->kernel->count; i++) memcpy(to + 16 * i, it->values[i], it->kernel->sizes[i]);
  } else {
    memcpy(to, it->shape, sizeof it->shape);
  }
  for (size_t i = 0; i < it->kernel->count; i++) free(it->values[i]);
  free(it);
}
