/*
 * Messages of 64 bytes, one way through a ring, between two processes that spin. A sample is the
 * mean of CHUNK messages, at the reader. The same loop: bench/actors/channel-throughput.ts
 */
#include "ring-create.h"

#define SLOTS 1024
#define MESSAGE_BYTES 64
#define CHUNK 1024

static struct ring_fds ring;

static void reader(struct arguments arguments, int socket) {
  struct samples samples = {0};
  struct ring_fds fds = reader_fds(&ring, 0);
  struct ring_reader reader = open_reader(&fds);
  uint64_t total = arguments.warm_up + arguments.iterations;
  char ready = 1;
  double start = 0;
  send_message(socket, &ready, 1);
  for (uint64_t i = 0; i < total; i++) {
    take(&reader);
    const uint32_t *words = (const uint32_t *)taken_slot(&reader);
    if (words[0] != (uint32_t)i || words[15] != (uint32_t)i) fail("message %lu says %u and %u", i, words[0], words[15]);
    release(&reader);
    if ((i + 1) % CHUNK != 0) continue;
    double now = now_us();
    if (start != 0) add_sample(&samples, (now - start) / CHUNK);
    start = i >= (uint64_t)arguments.warm_up ? now : 0;
  }
  report("channel-throughput", arguments.iterations, &samples);
}

static void writer(struct arguments arguments, int socket) {
  struct ring_writer writer = open_writer(&ring);
  uint64_t total = arguments.warm_up + arguments.iterations;
  char ready = 0;
  receive_message(socket, &ready, 1);
  for (uint64_t i = 0; i < total; i++) {
    reserve(&writer);
    uint32_t *words = (uint32_t *)reserved_slot(&writer);
    words[0] = words[15] = (uint32_t)i;
    commit(&writer, MESSAGE_BYTES);
  }
  end_channel(&writer);
}

int main(int argc, char **argv) {
  ring = create_ring(small_channel(SLOTS, MESSAGE_BYTES));
  return run_pair(reader, writer, parse_arguments(argc, argv));
}
