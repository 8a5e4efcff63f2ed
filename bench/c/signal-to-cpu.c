/*
 * The stream of one process writes a word. The CPU of another spins on it and answers with a plain
 * store, on which the first CPU spins. A sample is one round trip. The same loop:
 * bench/actors/signal-to-cpu.ts
 */
#include "words.h"

static struct words_file files[2];

static void first(struct arguments arguments, int socket) {
  struct samples samples = {0};
  long total = arguments.warm_up + arguments.iterations;
  char ready = 0;
  open_device(arguments.ordinal);
  struct word own = own_word(files[0]), peer = peer_word(files[1]);
  lane stream = create_stream();
  receive_message(socket, &ready, 1);
  for (long i = 1; i <= total; i++) {
    double start = now_us();
    write_on(stream, &own, i);
    spin_until(&peer, i);
    if (i > arguments.warm_up) add_sample(&samples, now_us() - start);
  }
  finish(stream);
  report("signal-to-cpu", arguments.iterations, &samples);
}

static void second(struct arguments arguments, int socket) {
  long total = arguments.warm_up + arguments.iterations;
  char ready = 1;
  open_device(arguments.ordinal);
  struct word own = own_word(files[1]), peer = peer_word(files[0]);
  send_message(socket, &ready, 1);
  for (long i = 1; i <= total; i++) {
    spin_until(&peer, i);
    store_word(&own, i);
  }
}

int main(int argc, char **argv) {
  files[0] = create_words();
  files[1] = create_words();
  return run_pair(first, second, parse_arguments(argc, argv));
}
