/*
 * A message of 64 bytes goes to another process through one ring, and its answer comes back through
 * another. Both processes spin. A sample is one round trip. The same loop:
 * bench/actors/channel-round-trip.ts
 */
#include "ring-create.h"

#define SLOTS 16
#define MESSAGE_BYTES 64

static struct ring_fds rings[2];

static void send_number(struct ring_writer *writer, uint32_t number) {
  reserve(writer);
  uint32_t *words = (uint32_t *)reserved_slot(writer);
  words[0] = words[15] = number;
  commit(writer, MESSAGE_BYTES);
}

static uint32_t receive_number(struct ring_reader *reader) {
  take(reader);
  const uint32_t *words = (const uint32_t *)taken_slot(reader);
  uint32_t number = words[0];
  if (words[15] != number) fail("a message says %u and %u", number, words[15]);
  release(reader);
  return number;
}

static void first(struct arguments arguments, int socket) {
  struct samples samples = {0};
  struct ring_fds fds = reader_fds(&rings[1], 0);
  struct ring_writer writer = open_writer(&rings[0]);
  struct ring_reader reader = open_reader(&fds);
  long total = arguments.warm_up + arguments.iterations;
  char ready = 0;
  receive_message(socket, &ready, 1);
  for (long i = 1; i <= total; i++) {
    double start = now_us();
    send_number(&writer, i);
    uint32_t answer = receive_number(&reader);
    if (i > arguments.warm_up) add_sample(&samples, now_us() - start);
    if (answer != (uint32_t)i) fail("answer %u, wanted %ld", answer, i);
  }
  report("channel-round-trip", arguments.iterations, &samples);
}

static void second(struct arguments arguments, int socket) {
  struct ring_fds fds = reader_fds(&rings[0], 0);
  struct ring_writer writer = open_writer(&rings[1]);
  struct ring_reader reader = open_reader(&fds);
  long total = arguments.warm_up + arguments.iterations;
  char ready = 1;
  send_message(socket, &ready, 1);
  for (long i = 1; i <= total; i++) send_number(&writer, receive_number(&reader));
}

int main(int argc, char **argv) {
  for (int i = 0; i < 2; i++) rings[i] = create_ring(small_channel(SLOTS, MESSAGE_BYTES));
  return run_pair(first, second, parse_arguments(argc, argv));
}
