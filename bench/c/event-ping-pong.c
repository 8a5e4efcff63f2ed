/*
 * Two processes with an interprocess event each: one records its event and sends a message, and the
 * other's stream waits for it. Then the same way back. A sample is one round trip, until the first
 * stream is idle. The same loop: bench/actors/event-ping-pong.ts
 */
#include "cuda-driver.h"

static CUevent create_event(int socket) {
  CUevent event;
  CUipcEventHandle handle;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  CHECK(cuIpcGetEventHandle(&handle, event));
  send_message(socket, &handle, sizeof handle);
  return event;
}

static CUevent open_event(int socket) {
  CUevent event;
  CUipcEventHandle handle;
  receive_message(socket, &handle, sizeof handle);
  CHECK(cuIpcOpenEventHandle(&event, handle));
  return event;
}

static void first(struct arguments arguments, int socket) {
  struct samples samples = {0};
  uint32_t total = arguments.warm_up + arguments.iterations, answer;
  open_device(arguments.ordinal);
  CUstream stream = create_stream();
  CUevent own = create_event(socket), peer = open_event(socket);
  for (uint32_t i = 1; i <= total; i++) {
    double start = now_us();
    CHECK(cuEventRecord(own, stream));
    send_message(socket, &i, sizeof i);
    receive_message(socket, &answer, sizeof answer);
    if (answer != i) fail("answer %u, wanted %u", answer, i);
    CHECK(cuStreamWaitEvent(stream, peer, 0));
    finish(stream);
    if (i > arguments.warm_up) add_sample(&samples, now_us() - start);
  }
  send_message(socket, &total, sizeof total);
  report("event-ping-pong", arguments.iterations, &samples);
}

static void second(struct arguments arguments, int socket) {
  uint32_t total = arguments.warm_up + arguments.iterations, round;
  open_device(arguments.ordinal);
  CUstream stream = create_stream();
  CUevent own = create_event(socket), peer = open_event(socket);
  for (uint32_t i = 1; i <= total; i++) {
    receive_message(socket, &round, sizeof round);
    CHECK(cuStreamWaitEvent(stream, peer, 0));
    CHECK(cuEventRecord(own, stream));
    send_message(socket, &round, sizeof round);
  }
  /* An event ends with its process, and the first process may still wait for the last event. */
  receive_message(socket, &round, sizeof round);
}

int main(int argc, char **argv) { return run_pair(first, second, parse_arguments(argc, argv)); }
