/* Commands of peer.c: bundles. */
#include "peer.h"

#define PARTS_MAX 16

/* Prints all arrays in order, and the metadata. Texts are in hexadecimal. */
static void say_bundle(const cuda_ipc_bundle *bundle) {
  printf("{\"object\":%lld,\"metadata\":[", (long long)bundle->object);
  for (size_t i = 0; i < bundle->metadata_count; i++) {
    printf("%s[", i == 0 ? "" : ",");
    say_hex(bundle->metadata[i].key, strlen(bundle->metadata[i].key));
    printf(",");
    say_hex(bundle->metadata[i].value, strlen(bundle->metadata[i].value));
    printf("]");
  }
  printf("],\"names\":[");
  for (size_t i = 0; i < bundle->count; i++) {
    printf("%s", i == 0 ? "" : ",");
    say_hex(bundle->arrays[i].name, bundle->arrays[i].name_bytes);
  }
  printf("]}");
  end_line();
  for (size_t i = 0; i < bundle->count; i++) say_array(&bundle->arrays[i].array);
}

static cuda_ipc_bundle *open_bundle(cuda_ipc_hub *hub, const char *name, cuda_ipc_access access) {
  cuda_ipc_bundle *bundle = cuda_ipc_bundle_open(hub, name, access, LIMIT_MS, &error);
  CHECK(bundle != NULL);
  return bundle;
}

static void reads(cuda_ipc_hub *hub, int count, char **names) {
  for (int i = 0; i < count; i++) {
    cuda_ipc_bundle *bundle = open_bundle(hub, names[i], CUDA_IPC_READ);
    say_bundle(bundle);
    cuda_ipc_bundle_close(bundle);
  }
}

/* Opens each name without waiting, and prints the code and message. */
static void refuses(cuda_ipc_hub *hub, int count, char **names) {
  for (int i = 0; i < count; i++) {
    cuda_ipc_bundle *bundle = cuda_ipc_bundle_open(hub, names[i], CUDA_IPC_READ, 0, &error);
    say_result(bundle != NULL);
    cuda_ipc_bundle_close(bundle);
  }
}

static int split_shape(char *text, int64_t *shape) {
  int rank = 0;
  for (char *one = strtok(text, ","); one != NULL; one = strtok(NULL, ","))
    shape[rank++] = atoll(one);
  return rank;
}

/*
 * bundle-makes NAME KEY VALUE [ARRAY DTYPE HEX LENGTH,...]...: publishes a bundle with one pair of
 * metadata, and holds it until a line comes. Then it prints the bundle.
 */
static void makes(cuda_ipc_hub *hub, int count, char **arguments) {
  cuda_ipc_bundle_part parts[PARTS_MAX];
  int64_t shapes[PARTS_MAX][CUDA_IPC_DIMENSIONS_MAX];
  cuda_ipc_pair metadata = {arguments[1], arguments[2]};
  cuda_ipc_bundle_options options = {.parts = parts, .count = (size_t)(count - 3) / 4,
                                     .metadata = &metadata, .metadata_count = 1,
                                     .device = getenv("CUDA_IPC_DEVICE")};
  for (size_t i = 0; i < options.count; i++) {
    char **part = arguments + 3 + 4 * i;
    int rank = split_shape(part[3], shapes[i]);
    parts[i] = (cuda_ipc_bundle_part){part[0], part[1], rank, shapes[i]};
  }
  cuda_ipc_bundle *bundle = cuda_ipc_bundle_create(hub, arguments[0], &options, &error);
  if (bundle == NULL) {
    say_result(false);
    return;
  }
  for (size_t i = 0; i < options.count; i++) {
    size_t length;
    unsigned char *bytes = from_hex(arguments[3 + 4 * i + 2], &length);
    cuda_ipc_array *array = cuda_ipc_bundle_find(bundle, parts[i].name);
    CHECK(array == &bundle->arrays[i].array);
    CHECK(cuda_ipc_copy_to(array, bytes, length, &error) == 0);
    free(bytes);
  }
  CHECK(cuda_ipc_bundle_publish(bundle, &error) == 0);
  say("published");
  hear();
  say_bundle(bundle);
  cuda_ipc_bundle_close(bundle);
}

/* bundle-visits NAME ARRAY [HEX]: prints an array, writes to it, and prints it after a line. */
static void visits(cuda_ipc_hub *hub, int count, char **arguments) {
  cuda_ipc_access access = count > 2 ? CUDA_IPC_READ_WRITE : CUDA_IPC_READ;
  cuda_ipc_bundle *bundle = open_bundle(hub, arguments[0], access);
  cuda_ipc_array *array = cuda_ipc_bundle_find(bundle, arguments[1]);
  if (array == NULL) {
    say("absent");
    cuda_ipc_bundle_close(bundle);
    return;
  }
  say_array(array);
  if (count > 2) {
    size_t length;
    unsigned char *bytes = from_hex(arguments[2], &length);
    CHECK(cuda_ipc_copy_to(array, bytes, length, &error) == 0);
    free(bytes);
  }
  hear();
  say_array(array);
  cuda_ipc_bundle_close(bundle);
}

const struct command bundle_commands[] = {
    {"bundle-reads", 1, reads},
    {"bundle-refuses", 1, refuses},
    {"bundle-makes", 3, makes},
    {"bundle-visits", 2, visits},
    {NULL, 0, NULL},
};
