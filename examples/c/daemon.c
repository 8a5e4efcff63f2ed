/*
 * The daemon of examples/daemon.ts in C: it owns data on the hub and changes it at every step.
 * Other processes, in any language, show the data and set its rate. It ends when standard input
 * does, or with Ctrl-C.
 *
 *   cc -std=c11 -O2 -I../../include daemon.c cuda_ipc.c -o daemon
 *   ./daemon                                          in one terminal
 *   npx cuda-ipc demo daemon watch                    in another
 *   python3 examples/python/show.py 2.5               or this
 *
 * The timeline says which step the data belongs to: its value is odd during a step.
 */
#define _POSIX_C_SOURCE 200809L
#include "cuda_ipc.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define STEP_MS 20
#define ELEMENTS 1024

static cuda_ipc_error error;

#define CHECK(done) do { if (!(done)) cuda_ipc_die(&error); } while (0)

static cuda_ipc_array *share(cuda_ipc_hub *hub, const char *name, int64_t count,
    const float *values) {
  const char *device = getenv("CUDA_IPC_DEVICE");
  cuda_ipc_create_options options = {.dtype = "float32", .rank = 1, .shape = &count,
      .device = device};
  cuda_ipc_array *array = cuda_ipc_create(hub, name, &options, &error);
  CHECK(array != NULL);
  CHECK(cuda_ipc_copy_to(array, values, (size_t)count * sizeof *values, &error) == 0);
  CHECK(cuda_ipc_publish(array, &error) == 0);
  return array;
}

/* Rests for a step. False once standard input has ended. */
static bool rest(void) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  return poll(&input, 1, STEP_MS) == 0 || getchar() != EOF;
}

int main(void) {
  static float field[ELEMENTS];
  float rate = 1;
  cuda_ipc_hub *hub = cuda_ipc_connect(NULL, "daemon.c", CUDA_IPC_TIMEOUT_MS, &error);
  CHECK(hub != NULL);
  cuda_ipc_timeline *steps = cuda_ipc_timeline_create(hub, "daemon-steps", &error);
  CHECK(steps != NULL);
  cuda_ipc_array *shared_field = share(hub, "daemon-field", ELEMENTS, field);
  cuda_ipc_array *shared_rate = share(hub, "daemon-rate", 1, &rate);
  printf("daemon: owns \"daemon-field\", float32[%d], and changes it at every step\n", ELEMENTS);
  fflush(stdout);

  int64_t step = 0;
  for (; rest(); step++) {
    CHECK(cuda_ipc_copy_from(shared_rate, &rate, sizeof rate, &error) == 0);
    CHECK(cuda_ipc_timeline_signal(steps, 2 * step + 1, &error) == 0);
    for (int i = 0; i < ELEMENTS; i++) field[i] += rate;
    CHECK(cuda_ipc_copy_to(shared_field, field, sizeof field, &error) == 0);
    CHECK(cuda_ipc_timeline_signal(steps, 2 * step + 2, &error) == 0);
  }
  printf("daemon: ends as asked, after step %lld\n", (long long)step);

  cuda_ipc_array_close(shared_rate);
  cuda_ipc_array_close(shared_field);
  cuda_ipc_timeline_close(steps);
  cuda_ipc_disconnect(hub);
  return 0;
}
