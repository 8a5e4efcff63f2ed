/*
 * Plays the hostile vectors for test/process/hub/hostile-vectors.test.ts. It makes one call on a
 * connection of its own for each vector, and says how the call ended, what it got, how the next call
 * ended, and how many descriptors are left over.
 */
#include "peer.h"
#include <dirent.h>

static int open_fds(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

static bool ignore(void *context, const cuda_ipc_entry *entry) {
  (void)context;
  return *entry->name != 0;
}

static bool say_opened(cuda_ipc_array *array) {
  if (array == NULL) return false;
  free(gather(array));
  printf("\"OK\",\"%s ", array->layout.dtype);
  say_shape(array->layout.shape, array->layout.rank);
  printf("\"");
  cuda_ipc_array_close(array);
  return true;
}

static bool say_bundle(cuda_ipc_bundle *bundle) {
  if (bundle == NULL) return false;
  printf("\"OK\",\"");
  for (size_t i = 0; i < bundle->count; i++) {
    if (i > 0) printf(",");
    for (size_t at = 0; at < bundle->arrays[i].name_bytes; at++)
      printf("%02x", (unsigned char)bundle->arrays[i].name[at]);
  }
  printf("\"");
  cuda_ipc_bundle_close(bundle);
  return true;
}

static bool say_ok(bool ok) {
  if (ok) printf("\"OK\",\"\"");
  return ok;
}

/* Says "OK" and what it got, or returns false. */
static bool make(cuda_ipc_hub *hub, const char *call) {
  int64_t shape[] = {1};
  cuda_ipc_create_options options = {.dtype = "int32", .rank = 1, .shape = shape};
  if (strcmp(call, "connect") == 0) return say_ok(true);
  if (strcmp(call, "array") == 0)
    return say_opened(cuda_ipc_open(hub, "it", CUDA_IPC_READ, LIMIT_MS, &error));
  if (strcmp(call, "array to write") == 0)
    return say_opened(cuda_ipc_open(hub, "it", CUDA_IPC_READ_WRITE, LIMIT_MS, &error));
  if (strcmp(call, "bundle") == 0)
    return say_bundle(cuda_ipc_bundle_open(hub, "it", CUDA_IPC_READ, LIMIT_MS, &error));
  if (strcmp(call, "timeline") == 0) {
    cuda_ipc_timeline *timeline = cuda_ipc_timeline_open(hub, "it", LIMIT_MS, &error);
    if (timeline != NULL) cuda_ipc_timeline_value(timeline);
    cuda_ipc_timeline_close(timeline);
    return say_ok(timeline != NULL);
  }
  if (strcmp(call, "reader") == 0) {
    cuda_ipc_reader_options from_next = {.timeout_ms = LIMIT_MS};
    cuda_ipc_reader *reader = cuda_ipc_reader_open(hub, "it", &from_next, &error);
    cuda_ipc_reader_close(reader);
    return say_ok(reader != NULL);
  }
  if (strcmp(call, "writer") == 0) {
    cuda_ipc_writer *writer = cuda_ipc_writer_resume(hub, "it", LIMIT_MS, &error);
    cuda_ipc_writer_close(writer);
    return say_ok(writer != NULL);
  }
  if (strcmp(call, "create") == 0) {
    cuda_ipc_array *array = cuda_ipc_create(hub, "it", &options, &error);
    cuda_ipc_array_close(array);
    return say_ok(array != NULL);
  }
  return say_ok(cuda_ipc_list(hub, ignore, NULL, &error) == 0);
}

static void say_failure(void) {
  printf("\"%s\",", error.code);
  say_hex(error.message, strlen(error.message));
}

void play_vectors(const char *socket_path, int count, char **calls) {
  int before = 0;
  for (int i = 0; i < count; i++) {
    char program[32];
    snprintf(program, sizeof program, "vector %d", i);
    printf("[");
    cuda_ipc_hub *hub = cuda_ipc_connect(socket_path, program, LIMIT_MS, &error);
    if (hub == NULL || !make(hub, calls[i])) say_failure();
    if (hub == NULL) printf(",\"\"");
    else printf(",\"%s\"", cuda_ipc_list(hub, ignore, NULL, &error) == 0 ? "OK" : error.code);
    cuda_ipc_disconnect(hub);
    if (i == 0) before = open_fds();
    printf(",%d]", open_fds() - before);
    end_line();
  }
}
