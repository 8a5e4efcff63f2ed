/*
 * Shows the client of include/cuda_ipc.h at work:
 *
 *   cc -std=c11 -O2 -I../../include tool.c cuda_ipc.c -o tool
 *   ./tool list
 *   ./tool put frame 1 2 3          an array of float32, until standard input ends
 *   ./tool show frame               prints it; waits for it, up to 10 s
 *   ./tool arrays weights           prints the metadata and arrays of a bundle
 *   ./tool add frame 0.5            adds to each element
 *   ./tool send lines               a channel: each line of standard input is a message
 *   ./tool receive lines            prints its messages
 *   ./tool wait steps 5             waits until a timeline is at 5
 *
 * CUDA_IPC_DEVICE=cuda:0 puts arrays and slots on a GPU.
 */
#include "cuda_ipc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 10000
#define LINE_BYTES_MAX 4096

static cuda_ipc_error error;

#define CHECK(done) do { if (!(done)) cuda_ipc_die(&error); } while (0)

static bool print_entry(void *context, const cuda_ipc_entry *entry) {
  (void)context;
  printf("%s\t%s\t%s\t%lld bytes\t%s\n", entry->name, entry->kind, entry->device,
         (long long)entry->byte_length, entry->published ? "published" : "not published");
  return true;
}

static void list(cuda_ipc_hub *hub) {
  CHECK(cuda_ipc_list(hub, print_entry, NULL, &error) == 0);
}

/* Waits until standard input ends. What is shared stays for so long. */
static void wait_for_input(void) {
  fflush(stdout);
  while (getchar() != EOF) continue;
}

static void put(cuda_ipc_hub *hub, const char *name, int count, char **texts) {
  int64_t shape[] = {count};
  const char *device = getenv("CUDA_IPC_DEVICE");
  cuda_ipc_create_options options = {.dtype = "float32", .rank = 1, .shape = shape,
      .device = device};
  cuda_ipc_array *array = cuda_ipc_create(hub, name, &options, &error);
  CHECK(array != NULL);
  float *values = calloc((size_t)count + 1, sizeof *values);
  for (int i = 0; i < count; i++) values[i] = strtof(texts[i], NULL);
  CHECK(cuda_ipc_copy_to(array, values, (size_t)count * sizeof *values, &error) == 0);
  CHECK(cuda_ipc_publish(array, &error) == 0);
  free(values);
  printf("published %s\n", name);
  wait_for_input();
  cuda_ipc_array_close(array);
}

/* Calls `change` on a copy of all elements. Prints them, or writes them back. */
static void visit(cuda_ipc_hub *hub, const char *name, const float *add) {
  cuda_ipc_access access = add == NULL ? CUDA_IPC_READ : CUDA_IPC_READ_WRITE;
  cuda_ipc_array *array = cuda_ipc_open(hub, name, access, WAIT_MS, &error);
  CHECK(array != NULL);
  if (strcmp(array->layout.dtype, "float32") != 0) {
    fprintf(stderr, "%s is of %s, wanted float32\n", name, array->layout.dtype);
    exit(1);
  }
  size_t bytes = (size_t)(array->element_count * array->item_bytes);
  float *values = malloc(bytes + 1);
  CHECK(cuda_ipc_copy_from(array, values, bytes, &error) == 0);
  for (int64_t i = 0; i < array->element_count; i++) {
    if (add != NULL) values[i] += *add;
    else printf("%g%c", values[i], i + 1 == array->element_count ? '\n' : ' ');
  }
  if (add != NULL) CHECK(cuda_ipc_copy_to(array, values, bytes, &error) == 0);
  free(values);
  cuda_ipc_array_close(array);
}

static void print_bundle(cuda_ipc_hub *hub, const char *name) {
  cuda_ipc_bundle *bundle = cuda_ipc_bundle_open(hub, name, CUDA_IPC_READ, WAIT_MS, &error);
  CHECK(bundle != NULL);
  for (size_t i = 0; i < bundle->metadata_count; i++)
    printf("%s: %s\n", bundle->metadata[i].key, bundle->metadata[i].value);
  for (size_t i = 0; i < bundle->count; i++) {
    const cuda_ipc_array *array = &bundle->arrays[i].array;
    printf("%s\t%s[", bundle->arrays[i].name, array->layout.dtype);
    for (int axis = 0; axis < array->layout.rank; axis++)
      printf("%s%lld", axis == 0 ? "" : ",", (long long)array->layout.shape[axis]);
    printf("]\t%lld bytes\n", (long long)(array->element_count * array->item_bytes));
  }
  cuda_ipc_bundle_close(bundle);
}

static void send_lines(cuda_ipc_hub *hub, const char *name) {
  int64_t shape[] = {LINE_BYTES_MAX};
  cuda_ipc_channel_options options = {.dtype = "uint8", .rank = 1, .shape = shape, .slots = 8,
                                      .readers_max = 4, .meta_bytes_max = 64};
  cuda_ipc_writer *writer = cuda_ipc_writer_create(hub, name, &options, &error);
  CHECK(writer != NULL);
  char line[LINE_BYTES_MAX + 1];
  for (long number = 0; fgets(line, sizeof line, stdin) != NULL; number++) {
    cuda_ipc_slot slot;
    char meta[64];
    size_t length = strcspn(line, "\n");
    int meta_bytes = snprintf(meta, sizeof meta, "{\"line\":%ld}", number);
    CHECK(cuda_ipc_writer_loan(writer, &slot, CUDA_IPC_FOREVER, &error) == 0);
    memcpy(slot.data, line, length);
    CHECK(cuda_ipc_writer_commit(writer, (int64_t)length, meta, (uint32_t)meta_bytes,
                                 CUDA_IPC_FLAG_JSON, &error) == 0);
  }
  cuda_ipc_writer_close(writer);
}

static void receive_lines(cuda_ipc_hub *hub, const char *name) {
  cuda_ipc_reader_options options = {.from = "oldest", .timeout_ms = WAIT_MS};
  cuda_ipc_reader *reader = cuda_ipc_reader_open(hub, name, &options, &error);
  CHECK(reader != NULL);
  cuda_ipc_message message;
  int taken;
  while ((taken = cuda_ipc_reader_next(reader, &message, CUDA_IPC_FOREVER, &error)) > 0) {
    printf("%lld %.*s %.*s\n", (long long)message.sequence, (int)message.byte_length,
           (const char *)message.data, (int)message.meta_bytes, (const char *)message.meta);
    fflush(stdout);
    cuda_ipc_reader_release(reader, &message);
  }
  CHECK(taken == 0);
  cuda_ipc_reader_close(reader);
}

static void wait_for(cuda_ipc_hub *hub, const char *name, const char *value) {
  cuda_ipc_timeline *timeline = cuda_ipc_timeline_open(hub, name, WAIT_MS, &error);
  CHECK(timeline != NULL);
  CHECK(cuda_ipc_timeline_wait(timeline, strtoll(value, NULL, 10), WAIT_MS, &error) == 0);
  printf("%s is at %lld\n", name, (long long)cuda_ipc_timeline_last_value(timeline));
  cuda_ipc_timeline_close(timeline);
}

int main(int argc, char **argv) {
  const char *command = argc > 1 ? argv[1] : "";
  cuda_ipc_hub *hub = cuda_ipc_connect(NULL, "tool.c", CUDA_IPC_TIMEOUT_MS, &error);
  CHECK(hub != NULL);
  if (strcmp(command, "list") == 0 && argc == 2) list(hub);
  else if (strcmp(command, "put") == 0 && argc >= 3) put(hub, argv[2], argc - 3, argv + 3);
  else if (strcmp(command, "show") == 0 && argc == 3) visit(hub, argv[2], NULL);
  else if (strcmp(command, "arrays") == 0 && argc == 3) print_bundle(hub, argv[2]);
  else if (strcmp(command, "add") == 0 && argc == 4)
    visit(hub, argv[2], &(float){strtof(argv[3], NULL)});
  else if (strcmp(command, "send") == 0 && argc == 3) send_lines(hub, argv[2]);
  else if (strcmp(command, "receive") == 0 && argc == 3) receive_lines(hub, argv[2]);
  else if (strcmp(command, "wait") == 0 && argc == 4) wait_for(hub, argv[2], argv[3]);
  else {
    fprintf(stderr,
            "Usage: tool list | put NAME VALUE... | show NAME | arrays NAME | add NAME VALUE | "
            "send NAME | receive NAME | wait TIMELINE VALUE\n");
    return 2;
  }
  cuda_ipc_disconnect(hub);
  return 0;
}
