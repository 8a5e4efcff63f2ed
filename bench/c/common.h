/*
 * Common code of these programs: time, samples, waits with a timeout, and two processes that end
 * together. Usage: PROGRAM ITERATIONS [ORDINAL]. Each program prints one line of JSON for each
 * measurement, like the actors in bench/actors.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The timeout of waits for the other process or a GPU. */
#define LIMIT_US 20e6
/* Single calls are too short to time, so this many make one sample. */
#define CALLS_PER_SAMPLE 64

__attribute__((noreturn, format(printf, 1, 2))) static inline void fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fputc('\n', stderr);
  exit(1);
}

static inline double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* A spinning wait calls this in each round. It reads the clock only now and then. */
struct limit { unsigned asked; double end_us; };
static inline void check_limit(struct limit *limit, const char *what) {
  if (++limit->asked % 1024 != 0) return;
  if (limit->end_us == 0) limit->end_us = now_us() + LIMIT_US;
  else if (now_us() > limit->end_us) fail("timed out after %.0f s: %s", LIMIT_US / 1e6, what);
}

struct samples { double *us; long count, room; };

static inline void add_sample(struct samples *samples, double us) {
  if (samples->count == samples->room) {
    samples->room = samples->room == 0 ? 65536 : 2 * samples->room;
    samples->us = realloc(samples->us, samples->room * sizeof *samples->us);
    if (samples->us == NULL) fail("no memory for samples");
  }
  samples->us[samples->count++] = us;
}

static inline int ascending(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

static inline void report(const char *name, long iterations, struct samples *samples) {
  double sum = 0;
  if (samples->count == 0) fail("%s: %ld iterations make no sample", name, iterations);
  for (long i = 0; i < samples->count; i++) sum += samples->us[i];
  qsort(samples->us, samples->count, sizeof *samples->us, ascending);
  printf("{\"name\":\"%s\",\"iterations\":%ld,\"us\":{\"p50\":%.4f,\"p99\":%.4f,\"mean\":%.4f}}\n", name, iterations,
         samples->us[samples->count / 2], samples->us[samples->count * 99 / 100], sum / samples->count);
  free(samples->us);
  *samples = (struct samples){0};
}

struct arguments { long iterations, warm_up; int ordinal; };

static inline struct arguments parse_arguments(int argc, char **argv) {
  struct arguments found = {0};
  if (argc >= 2) found.iterations = atol(argv[1]);
  if (argc >= 3) found.ordinal = atoi(argv[2]);
  if (found.iterations < 1) fail("Usage: %s ITERATIONS [ORDINAL]", argv[0]);
  found.warm_up = found.iterations / 10 + 1;
  return found;
}

/*
 * Runs two processes with a socket between them. Fails as soon as one of them fails. It forks
 * before any CUDA call, because CUDA does not survive a fork.
 */
static inline int run_pair(void (*first)(struct arguments, int socket), void (*second)(struct arguments, int socket), struct arguments arguments) {
  int sockets[2];
  pid_t children[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) fail("socketpair: %s", strerror(errno));
  for (int i = 0; i < 2; i++) {
    children[i] = fork();
    if (children[i] < 0) fail("fork: %s", strerror(errno));
    if (children[i] > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(sockets[1 - i]);
    (i == 0 ? first : second)(arguments, sockets[i]);
    exit(0);
  }
  close(sockets[0]);
  close(sockets[1]);
  for (int ended = 0; ended < 2; ended++) {
    int status;
    pid_t child = wait(&status);
    if (child < 0) fail("wait: %s", strerror(errno));
    if (status == 0) continue;
    kill(children[0] == child ? children[1] : children[0], SIGKILL);
    fail("process %d of the pair ended with status %d", children[0] == child ? 1 : 2, status);
  }
  return 0;
}

static inline void send_message(int socket, const void *bytes, size_t count) {
  if (send(socket, bytes, count, MSG_NOSIGNAL) != (ssize_t)count) fail("send: %s", strerror(errno));
}

/* Polls, because that is faster than sleeping until the message arrives. */
static inline void receive_message(int socket, void *bytes, size_t count) {
  struct limit limit = {0};
  for (;;) {
    ssize_t received = recv(socket, bytes, count, MSG_DONTWAIT);
    if (received == (ssize_t)count) return;
    if (received >= 0) fail("the other process hung up");
    if (errno != EAGAIN) fail("recv: %s", strerror(errno));
    check_limit(&limit, "a message of the other process");
  }
}

#endif
