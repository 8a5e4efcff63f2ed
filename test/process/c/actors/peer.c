/*
 * The C side of the tests beside it: peer SOCKET COMMAND [ARGUMENT...]. It prints lines of JSON,
 * and waits for lines of its input where a command says so.
 */
#define _GNU_SOURCE
#include "cuda_ipc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_MS 60000

static cuda_ipc_error error;
static const char *socket_path;

#define CHECK(done) do { if (!(done)) cuda_ipc_die(&error); } while (0)

static void hear(void) {
  int c;
  while ((c = getchar()) != EOF && c != '\n') continue;
}

static void say_hex(const unsigned char *bytes, size_t count) {
  putchar('"');
  for (size_t i = 0; i < count; i++) printf("%02x", bytes[i]);
  putchar('"');
}

static void say_shape(const int64_t *shape, int rank) {
  for (int i = 0; i < rank; i++) printf("%s%lld", i == 0 ? "" : ",", (long long)shape[i]);
}

static void end_line(void) {
  printf("\n");
  fflush(stdout);
}

/* The bytes of all elements in row-major order, through the strides. */
static unsigned char *gather(const cuda_ipc_array *array) {
  int64_t index[CUDA_IPC_DIMENSIONS_MAX] = {0};
  size_t length = (size_t)(array->element_count * array->item_bytes);
  unsigned char *bytes = malloc(length + 1);
  if (array->contiguous) {
    CHECK(cuda_ipc_copy_from(array, bytes, length, &error) == 0);
    return bytes;
  }
  for (int64_t i = 0; i < array->element_count; i++) {
    int64_t at = 0;
    for (int axis = 0; axis < array->layout.rank; axis++)
      at += index[axis] * array->layout.strides[axis];
    memcpy(bytes + i * array->item_bytes, (char *)array->data + at * array->item_bytes,
           (size_t)array->item_bytes);
    for (int axis = array->layout.rank - 1; axis >= 0; axis--) {
      if (++index[axis] < array->layout.shape[axis]) break;
      index[axis] = 0;
    }
  }
  return bytes;
}

static void reads(cuda_ipc_hub *hub, int count, char **names) {
  for (int i = 0; i < count; i++) {
    cuda_ipc_array *array = cuda_ipc_open(hub, names[i], CUDA_IPC_READ, LIMIT_MS, &error);
    CHECK(array != NULL);
    unsigned char *bytes = gather(array);
    printf("{\"dtype\":\"%s\",\"shape\":[", array->layout.dtype);
    say_shape(array->layout.shape, array->layout.rank);
    printf("],\"contiguous\":%s,\"hex\":", array->contiguous ? "true" : "false");
    say_hex(bytes, (size_t)(array->element_count * array->item_bytes));
    printf("}");
    end_line();
    free(bytes);
    cuda_ipc_array_close(array);
  }
}

/* Opens each name, waiting for 100 ms, and prints the code and message. */
static void refuses(cuda_ipc_hub *hub, int count, char **names) {
  for (int i = 0; i < count; i++) {
    cuda_ipc_array *array = cuda_ipc_open(hub, names[i], CUDA_IPC_READ, 100, &error);
    printf("[\"%s\",", array == NULL ? error.code : "OK");
    say_hex((unsigned char *)error.message, array == NULL ? strlen(error.message) : 0);
    printf("]");
    end_line();
    cuda_ipc_array_close(array);
  }
}

/* makes NAME DTYPE HEX LENGTH...: publishes an array, and holds it until a line comes. */
static void makes(cuda_ipc_hub *hub, int count, char **arguments) {
  int64_t shape[CUDA_IPC_DIMENSIONS_MAX];
  for (int i = 3; i < count; i++) shape[i - 3] = atoll(arguments[i]);
  cuda_ipc_create_options options = {.dtype = arguments[1], .rank = count - 3, .shape = shape,
                                     .device = getenv("CUDA_IPC_DEVICE")};
  cuda_ipc_array *array = cuda_ipc_create(hub, arguments[0], &options, &error);
  if (array == NULL) {
    printf("\"%s\"", error.code);
    end_line();
    return;
  }
  size_t length = strlen(arguments[2]) / 2;
  unsigned char *bytes = malloc(length + 1);
  for (size_t i = 0; i < length; i++) {
    unsigned byte;
    sscanf(arguments[2] + 2 * i, "%2x", &byte);
    bytes[i] = (unsigned char)byte;
  }
  CHECK(cuda_ipc_copy_to(array, bytes, length, &error) == 0);
  CHECK(cuda_ipc_publish(array, &error) == 0);
  free(bytes);
  printf("\"published\"");
  end_line();
  hear();
  unsigned char *now = gather(array);
  say_hex(now, length);
  end_line();
  free(now);
  cuda_ipc_array_close(array);
}

static bool print_name(void *context, const cuda_ipc_entry *entry) {
  int *count = context;
  printf("%s\"%s\"", (*count)++ == 0 ? "" : ",", entry->name);
  return true;
}

static void lists(cuda_ipc_hub *hub) {
  int count = 0;
  printf("[");
  CHECK(cuda_ipc_list(hub, print_name, &count, &error) == 0);
  printf("]");
  end_line();
}

/* ticks NAME: makes a timeline and signals the next number at each line. */
static void ticks(cuda_ipc_hub *hub, const char *name) {
  cuda_ipc_timeline *timeline = cuda_ipc_timeline_create(hub, name, &error);
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
static void awaits(cuda_ipc_hub *hub, char **arguments) {
  cuda_ipc_timeline *timeline = cuda_ipc_timeline_open(hub, arguments[0], LIMIT_MS, &error);
  CHECK(timeline != NULL);
  printf("\"waiting\"");
  end_line();
  int status = cuda_ipc_timeline_wait(timeline, atoll(arguments[1]), atoll(arguments[2]), &error);
  if (status == 0) printf("%lld", (long long)cuda_ipc_timeline_value(timeline));
  else printf("\"%s\"", error.code);
  end_line();
  cuda_ipc_timeline_close(timeline);
}

/* ---- channels ---- */

static cuda_ipc_reader *open_reader(cuda_ipc_hub *hub, const char *name, const char *from,
                                    bool lossy) {
  cuda_ipc_reader_options options = {.lossy = lossy, .from = from, .timeout_ms = LIMIT_MS};
  cuda_ipc_reader *reader = cuda_ipc_reader_open(hub, name, &options, &error);
  CHECK(reader != NULL);
  return reader;
}

static void take(cuda_ipc_reader *reader, cuda_ipc_message *message) {
  CHECK(cuda_ipc_reader_next(reader, message, LIMIT_MS, &error) == 1);
}

/* The data of a message, from host memory or a GPU; the caller's to free. */
static unsigned char *copy_of(const cuda_ipc_reader *reader, const cuda_ipc_message *message) {
  unsigned char *bytes = malloc((size_t)message->byte_length + 1);
  CHECK(cuda_ipc_reader_copy(reader, message, bytes, (size_t)message->byte_length, &error) == 0);
  return bytes;
}

static void describe(const cuda_ipc_reader *reader, const cuda_ipc_message *message) {
  unsigned char *bytes = copy_of(reader, message);
  printf("{\"sequence\":%lld,\"missed\":%lld,\"shape\":[", (long long)message->sequence,
         (long long)message->missed);
  say_shape(message->shape, message->rank);
  printf("],\"isJson\":%s,\"meta\":", message->meta_is_json ? "true" : "false");
  say_hex(message->meta, message->meta_bytes);
  printf(",\"hex\":");
  say_hex(bytes, (size_t)message->byte_length);
  printf("}");
  end_line();
  free(bytes);
}

/* describes NAME: prints each message, and how the channel ends. */
static void describes(cuda_ipc_hub *hub, const char *name) {
  cuda_ipc_message message;
  int taken;
  cuda_ipc_reader *reader = open_reader(hub, name, "oldest", false);
  printf("\"reading\"");
  end_line();
  while ((taken = cuda_ipc_reader_next(reader, &message, LIMIT_MS, &error)) > 0) {
    describe(reader, &message);
    cuda_ipc_reader_release(reader, &message);
  }
  printf("\"%s\"", taken == 0 ? "closed" : error.code);
  end_line();
  cuda_ipc_reader_close(reader);
}

static bool is_right(const cuda_ipc_reader *reader, const cuda_ipc_message *message) {
  char meta[32];
  int length = snprintf(meta, sizeof meta, "%lld", (long long)message->sequence);
  if ((uint32_t)length != message->meta_bytes || memcmp(meta, message->meta, (size_t)length) != 0)
    return false;
  unsigned char *bytes = copy_of(reader, message);
  bool right = true;
  for (int64_t i = 0; i < message->byte_length; i++)
    right = right && bytes[i] == message->sequence % 251;
  free(bytes);
  return right;
}

/* counts NAME [lossy]: checks messages whose bytes all hold their sequence. */
static void counts(cuda_ipc_hub *hub, int count, char **arguments) {
  cuda_ipc_message message;
  long long received = 0, missed = 0, wrong = 0, first = -1, last = -1;
  int taken;
  bool in_order = true;
  cuda_ipc_reader *reader = open_reader(hub, arguments[0], "oldest", count > 1);
  printf("\"reading\"");
  end_line();
  while ((taken = cuda_ipc_reader_next(reader, &message, LIMIT_MS, &error)) > 0) {
    wrong += !is_right(reader, &message);
    in_order = in_order && message.sequence > last;
    last = message.sequence;
    if (first < 0) first = last;
    received++;
    missed += message.missed;
    cuda_ipc_reader_release(reader, &message);
  }
  printf("{\"end\":\"%s\",\"wrong\":%lld,\"inOrder\":%s,\"received\":%lld,\"missed\":%lld,"
         "\"first\":%lld,\"last\":%lld}", taken == 0 ? "closed" : error.code, wrong,
         in_order ? "true" : "false", received, missed, first, last);
  end_line();
  cuda_ipc_reader_close(reader);
}

/* holds NAME [lossy]: prints a message before and after a line, and then the next one. */
static void holds(cuda_ipc_hub *hub, int count, char **arguments) {
  cuda_ipc_message message;
  cuda_ipc_reader *reader = open_reader(hub, arguments[0], "oldest", count > 1);
  take(reader, &message);
  describe(reader, &message);
  hear();
  describe(reader, &message);
  cuda_ipc_reader_release(reader, &message);
  take(reader, &message);
  describe(reader, &message);
  cuda_ipc_reader_release(reader, &message);
  cuda_ipc_reader_close(reader);
}

/* late NAME FROM: a lossy reader that takes its first message when a line comes. */
static void late(cuda_ipc_hub *hub, char **arguments) {
  cuda_ipc_message message;
  cuda_ipc_reader *reader = open_reader(hub, arguments[0], arguments[1], true);
  printf("\"reading\"");
  end_line();
  hear();
  take(reader, &message);
  printf("[%lld,%lld]", (long long)message.sequence, (long long)message.missed);
  end_line();
  cuda_ipc_reader_close(reader);
}

/* waits NAME MS: prints how a wait for a message ends. */
static void waits(cuda_ipc_hub *hub, char **arguments) {
  cuda_ipc_message message;
  cuda_ipc_reader *reader = open_reader(hub, arguments[0], "next", false);
  printf("\"reading\"");
  end_line();
  int taken = cuda_ipc_reader_next(reader, &message, atoll(arguments[1]), &error);
  printf("\"%s\"", taken < 0 ? error.code : taken == 0 ? "closed" : "message");
  end_line();
  cuda_ipc_reader_close(reader);
}

/* takes NAME COUNT: holds so many messages, out of order released. Prints the code of the last. */
static void takes(cuda_ipc_hub *hub, int count, char **arguments) {
  cuda_ipc_message held[32];
  int wanted = atoi(arguments[1]), taken = 1;
  cuda_ipc_reader *reader = open_reader(hub, arguments[0], "oldest", count > 2);
  for (int i = 0; i < wanted && taken == 1; i++)
    taken = cuda_ipc_reader_next(reader, &held[i], LIMIT_MS, &error);
  printf("\"%s\"", taken == 1 ? "OK" : error.code);
  end_line();
  hear();
  for (int i = wanted - 2; i >= 0; i--) cuda_ipc_reader_release(reader, &held[i]);
  printf("\"released\"");
  end_line();
  hear();
  cuda_ipc_reader_close(reader);
}

/* writes NAME POLICY COUNT: writes at the next line, and closes the channel at the one after. */
static void writes(cuda_ipc_hub *hub, char **arguments) {
  int64_t shape[] = {1000};
  cuda_ipc_channel_options options = {.dtype = "uint8", .rank = 1, .shape = shape, .slots = 4,
                                      .readers_max = 3, .meta_bytes_max = 32,
                                      .when_full = (uint32_t)atoi(arguments[1]),
                                      .device = getenv("CUDA_IPC_DEVICE")};
  cuda_ipc_writer *writer = cuda_ipc_writer_create(hub, arguments[0], &options, &error);
  CHECK(writer != NULL);
  printf("\"writing\"");
  end_line();
  hear();
  long long refused = 0, count = atoll(arguments[2]);
  int64_t sequence = 0;
  for (long long i = 0; i < count; i++) {
    cuda_ipc_slot slot;
    unsigned char bytes[1000];
    char meta[32];
    int status = cuda_ipc_writer_loan(writer, &slot, LIMIT_MS, &error);
    if (status != 0 && strcmp(error.code, "CHANNEL_FULL") == 0) {
      refused++;
      continue;
    }
    CHECK(status == 0);
    size_t length = (size_t)(1000 - i % 7 * 100);
    memset(bytes, (int)(sequence % 251), length);
    CHECK(cuda_ipc_writer_copy(writer, &slot, bytes, length, &error) == 0);
    int meta_bytes = snprintf(meta, sizeof meta, "%lld", (long long)sequence);
    CHECK(cuda_ipc_writer_commit(writer, (int64_t)length, meta, (uint32_t)meta_bytes,
                                 CUDA_IPC_FLAG_JSON, &error) == 0);
    sequence++;
  }
  printf("{\"refused\":%lld,\"readers\":%d}", refused, cuda_ipc_writer_readers(writer));
  end_line();
  hear();
  cuda_ipc_writer_close(writer);
}

/* loans NAME MS: fills the only slot, and prints how the next loan ends. */
static void loans(cuda_ipc_hub *hub, char **arguments) {
  int64_t shape[] = {8};
  cuda_ipc_slot slot;
  cuda_ipc_channel_options options = {.dtype = "uint8", .rank = 1, .shape = shape, .slots = 1,
                                      .readers_max = 1};
  cuda_ipc_writer *writer = cuda_ipc_writer_create(hub, arguments[0], &options, &error);
  CHECK(writer != NULL);
  printf("\"writing\"");
  end_line();
  hear();
  CHECK(cuda_ipc_writer_loan(writer, &slot, LIMIT_MS, &error) == 0);
  CHECK(cuda_ipc_writer_commit(writer, 8, NULL, 0, 0, &error) == 0);
  int status = cuda_ipc_writer_loan(writer, &slot, atoll(arguments[1]), &error);
  printf("[\"%s\",", status == 0 ? "OK" : error.code);
  say_hex((unsigned char *)error.message, status == 0 ? 0 : strlen(error.message));
  printf("]");
  end_line();
  cuda_ipc_writer_close(writer);
}

static bool ignore(void *context, const cuda_ipc_entry *entry) {
  return context == NULL && *entry->name != 0;
}

/* tries ROUNDS: everything that the client does, against a hub that may be hostile. */
static int tries(int rounds) {
  int64_t shape[] = {3};
  cuda_ipc_create_options array = {.dtype = "int32", .rank = 1, .shape = shape};
  cuda_ipc_channel_options channel = {.dtype = "uint8", .rank = 1, .shape = shape, .slots = 2,
                                      .readers_max = 2, .meta_bytes_max = 8};
  int succeeded = 0;
  for (int round = 0; round < rounds; round++) {
    cuda_ipc_hub *hub = cuda_ipc_connect(socket_path, "peer.c", 50, &error);
    if (hub == NULL) continue;
    cuda_ipc_reader_options options = {.lossy = round % 2 == 0, .from = "latest", .timeout_ms = 20};
    cuda_ipc_array *made = cuda_ipc_create(hub, "frame", &array, &error);
    if (made != NULL) succeeded += cuda_ipc_publish(made, &error) == 0;
    cuda_ipc_array *opened = cuda_ipc_open(hub, "frame", CUDA_IPC_READ, 20, &error);
    if (opened != NULL && opened->data != NULL) {
      unsigned char *bytes = gather(opened);
      succeeded++;
      free(bytes);
    }
    succeeded += cuda_ipc_list(hub, ignore, NULL, &error) == 0;
    cuda_ipc_timeline *timeline = cuda_ipc_timeline_open(hub, "steps", 20, &error);
    if (timeline != NULL) succeeded += cuda_ipc_timeline_wait(timeline, 1, 5, &error) == 0;
    cuda_ipc_writer *writer = cuda_ipc_writer_create(hub, "channel", &channel, &error);
    cuda_ipc_slot slot;
    if (writer != NULL && cuda_ipc_writer_loan(writer, &slot, 5, &error) == 0)
      succeeded += cuda_ipc_writer_commit(writer, 3, NULL, 0, 0, &error) == 0;
    cuda_ipc_reader *reader = cuda_ipc_reader_open(hub, "channel", &options, &error);
    cuda_ipc_message message;
    if (reader != NULL && cuda_ipc_reader_next(reader, &message, 5, &error) == 1)
      cuda_ipc_reader_release(reader, &message);
    cuda_ipc_reader_close(reader);
    cuda_ipc_writer_close(writer);
    cuda_ipc_timeline_close(timeline);
    cuda_ipc_array_close(opened);
    cuda_ipc_array_close(made);
    cuda_ipc_remove(hub, "frame", &error);
    cuda_ipc_disconnect(hub);
  }
  return succeeded;
}

int main(int argc, char **argv) {
  const char *command = argv[2];
  char **arguments = argv + 3;
  int count = argc - 3;
  socket_path = argv[1];
  if (strcmp(command, "tries") == 0) {
    int succeeded = tries(atoi(arguments[0]));
    printf("%d\n", succeeded);
    return 0;
  }
  cuda_ipc_hub *hub = cuda_ipc_connect(socket_path, "peer.c", LIMIT_MS, &error);
  CHECK(hub != NULL);
  if (strcmp(command, "reads") == 0) reads(hub, count, arguments);
  else if (strcmp(command, "refuses") == 0) refuses(hub, count, arguments);
  else if (strcmp(command, "makes") == 0) makes(hub, count, arguments);
  else if (strcmp(command, "lists") == 0) lists(hub);
  else if (strcmp(command, "ticks") == 0) ticks(hub, arguments[0]);
  else if (strcmp(command, "awaits") == 0) awaits(hub, arguments);
  else if (strcmp(command, "describes") == 0) describes(hub, arguments[0]);
  else if (strcmp(command, "counts") == 0) counts(hub, count, arguments);
  else if (strcmp(command, "holds") == 0) holds(hub, count, arguments);
  else if (strcmp(command, "late") == 0) late(hub, arguments);
  else if (strcmp(command, "waits") == 0) waits(hub, arguments);
  else if (strcmp(command, "takes") == 0) takes(hub, count, arguments);
  else if (strcmp(command, "writes") == 0) writes(hub, arguments);
  else if (strcmp(command, "loans") == 0) loans(hub, arguments);
  else return 2;
  cuda_ipc_disconnect(hub);
  return 0;
}
