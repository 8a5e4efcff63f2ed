/*
 * Two processes, stream to stream: the first writes its word and waits for the second's, which
 * waits and then writes. The CPUs enqueue at most WINDOW round trips ahead. A sample is the mean of
 * CHUNK round trips. The same loop: bench/actors/timeline-ping-pong.ts
 */
#include "words.h"

#define WINDOW 64
#define CHUNK 64

static struct words_file files[2];

static void first(struct arguments arguments, int socket) {
  struct samples samples = {0};
  long total = arguments.warm_up + arguments.iterations;
  char ready = 0;
  open_device(arguments.ordinal);
  struct word own = own_word(files[0]), peer = peer_word(files[1]);
  lane stream = create_stream();
  receive_message(socket, &ready, 1);
  double start = 0;
  for (long i = 1; i <= total; i++) {
    if (i > WINDOW) spin_until(&peer, i - WINDOW);
    if (i % CHUNK == 0) {
      double now = now_us();
      if (start != 0) add_sample(&samples, (now - start) / CHUNK);
      start = i > arguments.warm_up ? now : 0;
    }
    write_on(stream, &own, i);
    wait_on(stream, &peer, i);
  }
  spin_until(&peer, total);
  finish(stream);
  report("timeline-ping-pong", arguments.iterations, &samples);
}

static void second(struct arguments arguments, int socket) {
  long total = arguments.warm_up + arguments.iterations;
  char ready = 1;
  open_device(arguments.ordinal);
  struct word own = own_word(files[1]), peer = peer_word(files[0]);
  lane stream = create_stream();
  send_message(socket, &ready, 1);
  for (long i = 1; i <= total; i++) {
    if (i > WINDOW) spin_until(&peer, i - WINDOW);
    wait_on(stream, &peer, i);
    write_on(stream, &own, i);
  }
  spin_until(&own, total);
  finish(stream);
}

int main(int argc, char **argv) {
  files[0] = create_words();
  files[1] = create_words();
  return run_pair(first, second, parse_arguments(argc, argv));
}
