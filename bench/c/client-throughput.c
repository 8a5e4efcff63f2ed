/*
 * As channel-throughput.c, by the client in C on both sides, through a hub: messages of 64 bytes
 * one way between two processes that both spin. A sample is the mean of CHUNK messages.
 */
#include "common.h"
#include "cuda_ipc.h"

#define NAME "client-throughput"
#define SLOTS 1024
#define MESSAGE_BYTES 64
#define CHUNK 1024

static cuda_ipc_error error;

#define OR_DIE(done) do { if (!(done)) cuda_ipc_die(&error); } while (0)

static cuda_ipc_hub *join(const char *program) {
  cuda_ipc_hub *hub = cuda_ipc_connect(NULL, program, CUDA_IPC_TIMEOUT_MS, &error);
  OR_DIE(hub != NULL);
  return hub;
}

static void reader(struct arguments arguments, int socket) {
  struct samples samples = {0};
  cuda_ipc_reader_options options = {.from = "oldest", .timeout_ms = CUDA_IPC_TIMEOUT_MS};
  cuda_ipc_message message;
  cuda_ipc_hub *hub = join("reader");
  cuda_ipc_reader *reader = cuda_ipc_reader_open(hub, NAME, &options, &error);
  OR_DIE(reader != NULL);
  uint64_t total = arguments.warm_up + arguments.iterations;
  char ready = 1;
  double start = 0;
  send_message(socket, &ready, 1);
  for (uint64_t i = 0; i < total; i++) {
    OR_DIE(cuda_ipc_reader_next(reader, &message, CUDA_IPC_TIMEOUT_MS, &error) == 1);
    const uint32_t *words = message.data;
    if (words[0] != (uint32_t)i || words[15] != (uint32_t)i)
      fail("message %lu says %u and %u", i, words[0], words[15]);
    cuda_ipc_reader_release(reader, &message);
    if ((i + 1) % CHUNK != 0) continue;
    double now = now_us();
    if (start != 0) add_sample(&samples, (now - start) / CHUNK);
    start = i >= (uint64_t)arguments.warm_up ? now : 0;
  }
  report("client-throughput", arguments.iterations, &samples);
  cuda_ipc_reader_close(reader);
  cuda_ipc_disconnect(hub);
}

static void writer(struct arguments arguments, int socket) {
  cuda_ipc_channel_options options = {.dtype = "uint32", .rank = 1, .readers_max = 1,
                                      .shape = (int64_t[]){MESSAGE_BYTES / 4}, .slots = SLOTS};
  cuda_ipc_hub *hub = join("writer");
  cuda_ipc_writer *writer = cuda_ipc_writer_create(hub, NAME, &options, &error);
  OR_DIE(writer != NULL);
  uint64_t total = arguments.warm_up + arguments.iterations;
  char ready = 0;
  cuda_ipc_slot slot;
  receive_message(socket, &ready, 1);
  for (uint64_t i = 0; i < total; i++) {
    OR_DIE(cuda_ipc_writer_loan(writer, &slot, CUDA_IPC_TIMEOUT_MS, &error) == 0);
    uint32_t *words = slot.data;
    words[0] = words[15] = (uint32_t)i;
    OR_DIE(cuda_ipc_writer_commit(writer, MESSAGE_BYTES, NULL, 0, 0, &error) == 0);
  }
  cuda_ipc_writer_close(writer);
  cuda_ipc_disconnect(hub);
}

int main(int argc, char **argv) {
  return run_pair(reader, writer, parse_arguments(argc, argv));
}
