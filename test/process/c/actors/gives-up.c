/*
 * gives-up SOCKET array|bundle|channel: replaces "x", and hears no answer to its `publish`, so that
 * it gets a TIMEOUT. The program includes the client's source, with calls of the system that it can
 * make deaf. It waits for a line before each step, and says a line after it:
 *   make     creates the object; for a channel, which is published at once, this does nothing
 *   publish  says the code of the error, and closes the object
 *   settle   makes a request, and so reads late answers
 *   replace  replaces "x" by an array, and hears the answer
 *   remove   removes "x"
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static bool is_armed, is_deaf;

static ssize_t own_sendmsg(int fd, const struct msghdr *message, int flags) {
  const struct iovec *part = message->msg_iov;
  if (is_armed && memmem(part->iov_base, part->iov_len, "\"publish\"", 9) != NULL) is_deaf = true;
  return sendmsg(fd, message, flags);
}

static ssize_t own_recvmsg(int fd, struct msghdr *message, int flags) {
  if (!is_deaf) return recvmsg(fd, message, flags);
  errno = EAGAIN;
  return -1;
}

/* While it is deaf, each deadline is over at the next look at the clock. */
static int own_clock_gettime(clockid_t clock, struct timespec *now) {
  static time_t passed;
  int status = clock_gettime(clock, now);
  if (is_deaf) passed += 1000000;
  now->tv_sec += passed;
  return status;
}

#define sendmsg own_sendmsg
#define recvmsg own_recvmsg
#define clock_gettime own_clock_gettime
#include "../../../../examples/c/cuda_ipc.c"

static cuda_ipc_error error;
static int64_t shape[] = {1};

static void say(const char *text) {
  printf("\"%s\"\n", text);
  fflush(stdout);
}

static cuda_ipc_array *create_array(cuda_ipc_hub *hub) {
  cuda_ipc_create_options options = {
      .dtype = "uint8", .rank = 1, .shape = shape, .replace = CUDA_IPC_REPLACE_SAME_KIND};
  return cuda_ipc_create(hub, "x", &options, &error);
}

static cuda_ipc_bundle *create_bundle(cuda_ipc_hub *hub) {
  cuda_ipc_bundle_part part = {.name = "a", .dtype = "uint8", .rank = 1, .shape = shape};
  cuda_ipc_bundle_options options = {
      .parts = &part, .count = 1, .replace = CUDA_IPC_REPLACE_SAME_KIND};
  return cuda_ipc_bundle_create(hub, "x", &options, &error);
}

static cuda_ipc_writer *create_writer(cuda_ipc_hub *hub) {
  cuda_ipc_channel_options options = {.dtype = "uint8", .rank = 1, .shape = shape, .slots = 1,
      .readers_max = 1, .replace = CUDA_IPC_REPLACE_SAME_KIND};
  return cuda_ipc_writer_create(hub, "x", &options, &error);
}

static bool count_entry(void *context, const cuda_ipc_entry *entry) {
  (void)entry;
  ++*(int *)context;
  return true;
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  char kind = arguments[2][0], line[32];
  cuda_ipc_array *array = NULL, *next = NULL;
  cuda_ipc_bundle *bundle = NULL;
  cuda_ipc_hub *hub = cuda_ipc_connect(arguments[1], "gives-up.c", 60000, &error);
  if (hub == NULL) cuda_ipc_die(&error);
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = 0;
    bool failed = false;
    if (strcmp(line, "make") == 0) {
      if (kind == 'a') failed = (array = create_array(hub)) == NULL;
      if (kind == 'b') failed = (bundle = create_bundle(hub)) == NULL;
      say(failed ? error.code : "made");
    } else if (strcmp(line, "publish") == 0) {
      is_armed = true;
      if (kind == 'a') failed = cuda_ipc_publish(array, &error) != 0;
      else if (kind == 'b') failed = cuda_ipc_bundle_publish(bundle, &error) != 0;
      else failed = create_writer(hub) == NULL;
      cuda_ipc_array_close(array);
      cuda_ipc_bundle_close(bundle);
      is_armed = is_deaf = false;
      say(failed ? error.code : "OK");
    } else if (strcmp(line, "settle") == 0) {
      int found = 0;
      if (cuda_ipc_list(hub, count_entry, &found, &error) != 0) cuda_ipc_die(&error);
      say("settled");
    } else if (strcmp(line, "replace") == 0) {
      next = create_array(hub);
      if (next == NULL || cuda_ipc_publish(next, &error) != 0) cuda_ipc_die(&error);
      say("replaced");
    } else {
      if (cuda_ipc_remove(hub, "x", &error) != 0) cuda_ipc_die(&error);
      say("removed");
    }
  }
  cuda_ipc_array_close(next);
  cuda_ipc_disconnect(hub);
  return 0;
}
