/*
 * A sleeping reader is woken by its bell. A sample is the time from before the commit until the
 * other process has the message, on the clock that both share. The writer pauses in between, so
 * that the reader sleeps. The same loop: bench/actors/channel-wake.ts
 */
#include "ring-create.h"

#define SLOTS 16
#define MESSAGE_BYTES 64
#define PAUSE_US 500

static struct ring_fds ring;

static void reader(struct arguments arguments, int socket) {
  struct samples samples = {0};
  struct ring_fds fds = reader_fds(&ring, 0);
  struct ring_reader reader = open_reader(&fds);
  long total = arguments.warm_up + arguments.iterations;
  char ready = 1;
  send_message(socket, &ready, 1);
  for (long i = 1; i <= total; i++) {
    double sent;
    take_asleep(&reader);
    double now = now_us();
    memcpy(&sent, taken_slot(&reader), sizeof sent);
    release(&reader);
    if (i > arguments.warm_up) add_sample(&samples, now - sent);
  }
  report("channel-wake", arguments.iterations, &samples);
}

static void pause_between(void) {
  struct timespec pause = {.tv_nsec = PAUSE_US * 1000};
  nanosleep(&pause, NULL);
}

static void writer(struct arguments arguments, int socket) {
  struct ring_writer writer = open_writer(&ring);
  long total = arguments.warm_up + arguments.iterations;
  char ready = 0;
  receive_message(socket, &ready, 1);
  for (long i = 1; i <= total; i++) {
    struct limit limit = {0};
    while (atomic_load(word32_at(writer.seats[0].page, PAGE_asleep)) % 2 == 0) check_limit(&limit, "the reader sleeps");
    pause_between();
    reserve(&writer);
    double now = now_us();
    memcpy(reserved_slot(&writer), &now, sizeof now);
    commit(&writer, MESSAGE_BYTES);
  }
}

int main(int argc, char **argv) {
  ring = create_ring(small_channel(SLOTS, MESSAGE_BYTES));
  return run_pair(reader, writer, parse_arguments(argc, argv));
}
