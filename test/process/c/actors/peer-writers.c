/* Commands of peer.c: writers of channels. */
#include "peer.h"

#define MESSAGE_BYTES 1000

/* Writes messages whose bytes all hold their sequence, and whose meta is it. Prints how many were
 * refused. */
static void write_messages(cuda_ipc_writer *writer, long long count) {
  long long refused = 0;
  for (long long i = 0; i < count; i++) {
    cuda_ipc_slot slot;
    unsigned char bytes[MESSAGE_BYTES];
    char meta[32];
    int status = cuda_ipc_writer_loan(writer, &slot, LIMIT_MS, &error);
    if (status != 0 && strcmp(error.code, "CHANNEL_FULL") == 0) {
      refused++;
      continue;
    }
    CHECK(status == 0);
    long long sequence = (long long)cuda_ipc_writer_sequence(writer);
    size_t length = (size_t)(MESSAGE_BYTES - i % 7 * 100);
    memset(bytes, (int)(sequence % 251), length);
    CHECK(cuda_ipc_writer_copy(writer, &slot, bytes, length, &error) == 0);
    int meta_bytes = snprintf(meta, sizeof meta, "%lld", sequence);
    CHECK(cuda_ipc_writer_commit(writer, (int64_t)length, meta, (uint32_t)meta_bytes,
                                 CUDA_IPC_FLAG_JSON, &error) == 0);
  }
  printf("{\"refused\":%lld,\"readers\":%d}", refused, cuda_ipc_writer_readers(writer));
  end_line();
}

/*
 * writes NAME POLICY COUNT [wait]: writes at the next line, and closes the channel at the one
 * after. With "wait" another writer may follow.
 */
static void writes(cuda_ipc_hub *hub, int count, char **arguments) {
  int64_t shape[] = {MESSAGE_BYTES};
  cuda_ipc_channel_options options = {.dtype = "uint8", .rank = 1, .shape = shape, .slots = 4,
                                      .readers_max = 3, .meta_bytes_max = 32,
                                      .when_full = (uint32_t)atoi(arguments[1]),
                                      .when_writer_gone = count > 3,
                                      .device = getenv("CUDA_IPC_DEVICE")};
  cuda_ipc_writer *writer = cuda_ipc_writer_create(hub, arguments[0], &options, &error);
  CHECK(writer != NULL);
  say("writing");
  hear();
  write_messages(writer, atoll(arguments[2]));
  hear();
  cuda_ipc_writer_close(writer);
}

/*
 * resumes NAME COUNT MS [end]: waits for the name, prints the sequence and the shape or how it
 * failed, and then does as `writes`. With "end" it ends the channel, otherwise another writer may
 * follow.
 */
static void resumes(cuda_ipc_hub *hub, int count, char **arguments) {
  cuda_ipc_writer *writer = cuda_ipc_writer_resume(hub, arguments[0], atoll(arguments[2]), &error);
  if (writer == NULL) {
    say_result(false);
    return;
  }
  const cuda_ipc_layout *layout = cuda_ipc_writer_layout(writer);
  printf("{\"sequence\":%lld,\"dtype\":\"%s\",\"shape\":[",
         (long long)cuda_ipc_writer_sequence(writer), layout->dtype);
  say_shape(layout->shape, layout->rank);
  printf("]}");
  end_line();
  hear();
  write_messages(writer, atoll(arguments[1]));
  hear();
  if (count > 3) cuda_ipc_writer_end(writer);
  else cuda_ipc_writer_close(writer);
}

/* loans NAME MS [own [holds]]: fills the only slot, and prints how the next loan ends. With "own" it
 * has a reader itself. With "holds" that takes the message of a channel that drops its oldest. */
static void loans(cuda_ipc_hub *hub, int count, char **arguments) {
  int64_t shape[] = {8};
  cuda_ipc_reader *reader = NULL;
  cuda_ipc_reader_options own = {.timeout_ms = LIMIT_MS};
  cuda_ipc_slot slot;
  cuda_ipc_channel_options options = {.dtype = "uint8", .rank = 1, .shape = shape, .slots = 1,
                                      .readers_max = 1};
  if (count > 3) options.when_full = CUDA_IPC_WHEN_FULL_DROP_OLDEST;
  cuda_ipc_message message;
  cuda_ipc_writer *writer = cuda_ipc_writer_create(hub, arguments[0], &options, &error);
  CHECK(writer != NULL);
  if (count > 2) CHECK((reader = cuda_ipc_reader_open(hub, arguments[0], &own, &error)) != NULL);
  say("writing");
  hear();
  CHECK(cuda_ipc_writer_loan(writer, &slot, LIMIT_MS, &error) == 0);
  CHECK(cuda_ipc_writer_commit(writer, 8, NULL, 0, 0, &error) == 0);
  if (count > 3) CHECK(cuda_ipc_reader_next(reader, &message, LIMIT_MS, &error) == 1);
  say_result(cuda_ipc_writer_loan(writer, &slot, atoll(arguments[1]), &error) == 0);
  cuda_ipc_reader_close(reader);
  cuda_ipc_writer_close(writer);
}

const struct command writer_commands[] = {
    {"writes", 3, writes},
    {"resumes", 3, resumes},
    {"loans", 2, loans},
    {NULL, 0, NULL},
};
