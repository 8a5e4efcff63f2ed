/* Commands of peer.c: readers of channels. */
#include "peer.h"

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
static void describes(cuda_ipc_hub *hub, int count, char **arguments) {
  (void)count;
  cuda_ipc_message message;
  int taken;
  cuda_ipc_reader *reader = open_reader(hub, arguments[0], "oldest", false);
  say("reading");
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
  say("reading");
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
static void late(cuda_ipc_hub *hub, int count, char **arguments) {
  (void)count;
  cuda_ipc_message message;
  cuda_ipc_reader *reader = open_reader(hub, arguments[0], arguments[1], true);
  say("reading");
  hear();
  take(reader, &message);
  printf("[%lld,%lld]", (long long)message.sequence, (long long)message.missed);
  end_line();
  cuda_ipc_reader_close(reader);
}

/* rest NAME: a lossy reader that takes one message now, and the others when a line comes. Prints
 * how many those were, and how many it missed. */
static void rest(cuda_ipc_hub *hub, int count, char **arguments) {
  (void)count;
  cuda_ipc_message message;
  int taken = 0;
  cuda_ipc_reader *reader = open_reader(hub, arguments[0], "oldest", true);
  take(reader, &message);
  cuda_ipc_reader_release(reader, &message);
  say("taken");
  hear();
  while (cuda_ipc_reader_next(reader, &message, LIMIT_MS, &error) > 0) taken++;
  printf("[%d,%lld]", taken, (long long)cuda_ipc_reader_missed(reader));
  end_line();
  cuda_ipc_reader_close(reader);
}

/* waits NAME MS: prints how a wait for a message ends. */
static void waits(cuda_ipc_hub *hub, int count, char **arguments) {
  (void)count;
  cuda_ipc_message message;
  cuda_ipc_reader *reader = open_reader(hub, arguments[0], "next", false);
  say("reading");
  int taken = cuda_ipc_reader_next(reader, &message, atoll(arguments[1]), &error);
  printf("\"%s\"", taken < 0 ? error.code : taken == 0 ? "closed" : "message");
  end_line();
  cuda_ipc_reader_close(reader);
}

/* takes NAME COUNT: holds so many messages, and releases them in the reverse order.
 * Prints the code of the last one. */
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
  say("released");
  hear();
  cuda_ipc_reader_close(reader);
}

/* keeps NAME COUNT: releases none of so many messages. Prints how a wait for another one ends. */
static void keeps(cuda_ipc_hub *hub, int count, char **arguments) {
  (void)count;
  cuda_ipc_message message;
  cuda_ipc_reader *reader = open_reader(hub, arguments[0], "next", false);
  say("reading");
  for (int i = 0; i < atoi(arguments[1]); i++) {
    take(reader, &message);
    describe(reader, &message);
  }
  say_result(cuda_ipc_reader_next(reader, &message, 1, &error) == 1);
  cuda_ipc_reader_close(reader);
}

const struct command reader_commands[] = {
    {"describes", 1, describes},
    {"counts", 1, counts},
    {"holds", 1, holds},
    {"late", 2, late},
    {"rest", 1, rest},
    {"waits", 2, waits},
    {"takes", 2, takes},
    {"keeps", 2, keeps},
    {NULL, 0, NULL},
};
