/* Commands of peer.c: arrays, lists and timelines. */
#include "peer.h"

static void reads(cuda_ipc_hub *hub, int count, char **names) {
  for (int i = 0; i < count; i++) {
    cuda_ipc_array *array = cuda_ipc_open(hub, names[i], CUDA_IPC_READ, LIMIT_MS, &error);
    CHECK(array != NULL);
    say_array(array);
    cuda_ipc_array_close(array);
  }
}

/* Opens each name, waiting for 100 ms, and prints the code and message. */
static void refuses(cuda_ipc_hub *hub, int count, char **names) {
  for (int i = 0; i < count; i++) {
    cuda_ipc_array *array = cuda_ipc_open(hub, names[i], CUDA_IPC_READ, 100, &error);
    say_result(array != NULL);
    cuda_ipc_array_close(array);
  }
}

/* makes NAME DTYPE HEX LENGTH...: publishes an array, and holds it until a line comes. */
static void makes(cuda_ipc_hub *hub, int count, char **arguments) {
  int64_t shape[CUDA_IPC_DIMENSIONS_MAX];
  size_t length;
  for (int i = 3; i < count; i++) shape[i - 3] = atoll(arguments[i]);
  cuda_ipc_create_options options = {.dtype = arguments[1], .rank = count - 3, .shape = shape,
                                     .device = getenv("CUDA_IPC_DEVICE")};
  cuda_ipc_array *array = cuda_ipc_create(hub, arguments[0], &options, &error);
  if (array == NULL) {
    say(error.code);
    return;
  }
  unsigned char *bytes = from_hex(arguments[2], &length);
  CHECK(cuda_ipc_copy_to(array, bytes, length, &error) == 0);
  CHECK(cuda_ipc_publish(array, &error) == 0);
  free(bytes);
  say("published");
  hear();
  unsigned char *now = gather(array);
  say_hex(now, length);
  end_line();
  free(now);
  cuda_ipc_array_close(array);
}

/* Replaces arrays of one byte, by "same" or "any" kind. Says the errors. */
static void replaces(cuda_ipc_hub *hub, int count, char **arguments) {
  int64_t shape[1] = {1};
  bool any = strcmp(arguments[1], "any") == 0;
  int replace = any ? CUDA_IPC_REPLACE_ANY : CUDA_IPC_REPLACE_SAME_KIND;
  cuda_ipc_create_options options = {
      .dtype = "uint8", .rank = 1, .shape = shape, .pinned = true, .replace = replace};
  unsigned char value = (unsigned char)atoi(arguments[2]);
  (void)count;
  cuda_ipc_array *array = cuda_ipc_create(hub, arguments[0], &options, &error);
  if (array == NULL) {
    say(error.code);
    return;
  }
  CHECK(cuda_ipc_copy_to(array, &value, 1, &error) == 0);
  CHECK(cuda_ipc_publish(array, &error) == 0);
  cuda_ipc_array_close(array);
  say("published");
}

/* preallocates BOOLEAN: publishes an array, a bundle and a channel, until a line comes. */
static void preallocates(cuda_ipc_hub *hub, int count, char **arguments) {
  int64_t shape[1] = {1 << 20};
  bool now = atoi(arguments[0]) != 0;
  cuda_ipc_create_options options = {
      .dtype = "uint8", .rank = 1, .shape = shape, .preallocate = now};
  cuda_ipc_bundle_part part = {.name = "a", .dtype = "uint8", .rank = 1, .shape = shape};
  cuda_ipc_bundle_options several = {.parts = &part, .count = 1, .preallocate = now};
  cuda_ipc_channel_options ring = {.dtype = "uint8", .rank = 1, .shape = shape, .slots = 2,
                                   .readers_max = 1, .preallocate = now};
  (void)count;
  cuda_ipc_array *array = cuda_ipc_create(hub, "c:array", &options, &error);
  CHECK(array != NULL && cuda_ipc_publish(array, &error) == 0);
  cuda_ipc_bundle *bundle = cuda_ipc_bundle_create(hub, "c:bundle", &several, &error);
  CHECK(bundle != NULL && cuda_ipc_bundle_publish(bundle, &error) == 0);
  cuda_ipc_writer *writer = cuda_ipc_writer_create(hub, "c:channel", &ring, &error);
  CHECK(writer != NULL);
  say("published");
  hear();
  cuda_ipc_writer_close(writer);
  cuda_ipc_bundle_close(bundle);
  cuda_ipc_array_close(array);
}

static bool print_name(void *context, const cuda_ipc_entry *entry) {
  int *count = context;
  printf("%s\"%s\"", (*count)++ == 0 ? "" : ",", entry->name);
  return true;
}

static void lists(cuda_ipc_hub *hub, int argument_count, char **arguments) {
  (void)argument_count, (void)arguments;
  int count = 0;
  printf("[");
  CHECK(cuda_ipc_list(hub, print_name, &count, &error) == 0);
  printf("]");
  end_line();
}

/* ticks NAME: makes a timeline and signals the next number at each line. */
static void ticks(cuda_ipc_hub *hub, int count, char **arguments) {
  (void)count;
  cuda_ipc_timeline *timeline = cuda_ipc_timeline_create(hub, arguments[0], &error);
  CHECK(timeline != NULL);
  for (int64_t value = 1; !feof(stdin); value++) {
    printf("%lld", (long long)cuda_ipc_timeline_value(timeline));
    end_line();
    hear();
    if (!feof(stdin)) CHECK(cuda_ipc_timeline_signal(timeline, value, &error) == 0);
  }
  cuda_ipc_timeline_close(timeline);
}

/* awaits NAME VALUE MS: prints the value, or a code. */
static void awaits(cuda_ipc_hub *hub, int count, char **arguments) {
  (void)count;
  cuda_ipc_timeline *timeline = cuda_ipc_timeline_open(hub, arguments[0], LIMIT_MS, &error);
  CHECK(timeline != NULL);
  say("waiting");
  int status = cuda_ipc_timeline_wait(timeline, atoll(arguments[1]), atoll(arguments[2]), &error);
  if (status == 0) printf("%lld", (long long)cuda_ipc_timeline_last_value(timeline));
  else printf("\"%s\"", error.code);
  end_line();
  cuda_ipc_timeline_close(timeline);
}

/* owns NAME create|resume VALUE: makes or resumes a timeline, prints its value, and signals. */
static void owns(cuda_ipc_hub *hub, int count, char **arguments) {
  (void)count;
  cuda_ipc_timeline *timeline =
      arguments[1][0] == 'c' ? cuda_ipc_timeline_create_resumable(hub, arguments[0], &error)
                             : cuda_ipc_timeline_resume(hub, arguments[0], LIMIT_MS, &error);
  if (timeline == NULL) printf("\"%s\"", error.code);
  else printf("%lld", (long long)cuda_ipc_timeline_value(timeline));
  end_line();
  if (timeline != NULL) CHECK(cuda_ipc_timeline_signal(timeline, atoll(arguments[2]), &error) == 0);
  hear();
  cuda_ipc_timeline_close(timeline);
}

/* polls NAME: prints the value and the last value at each line. */
static void polls(cuda_ipc_hub *hub, int count, char **arguments) {
  (void)count;
  cuda_ipc_timeline *timeline = cuda_ipc_timeline_open(hub, arguments[0], LIMIT_MS, &error);
  CHECK(timeline != NULL);
  for (; !feof(stdin); hear()) {
    printf("[%lld,%lld]", (long long)cuda_ipc_timeline_value(timeline),
           (long long)cuda_ipc_timeline_last_value(timeline));
    end_line();
  }
  cuda_ipc_timeline_close(timeline);
}

const struct command array_commands[] = {
    {"reads", 1, reads},
    {"refuses", 1, refuses},
    {"makes", 3, makes},
    {"replaces", 3, replaces},
    {"preallocates", 1, preallocates},
    {"lists", 0, lists},
    {"ticks", 1, ticks},
    {"awaits", 3, awaits},
    {"owns", 3, owns},
    {"polls", 1, polls},
    {NULL, 0, NULL},
};
