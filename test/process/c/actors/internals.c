/*
 * Runs parts of the client that its functions do not show alone. It includes the client's source,
 * with a clock of its own. The clock moves when somebody reads it or waits, so time limits are
 * tested exactly. Input and output are lines; bytes are in hexadecimal.
 *   internals json                        for each text: its strings, or null if it is not JSON
 *   internals succeeds SLOTS META FIRST   for each control file: how the next writer goes on
 *   internals attaches SLOTS META FIRST FROM MODE   for each control file: where a reader begins
 *   internals takes SLOTS META LIMIT      what a lossy reader at position 0 takes of each control file,
 *                                         once that is its limit
 *   internals states META STATE...        what a reader of an empty channel gets in each state, if it
 *                                         does not wait
 *   internals sends UID                   what a request with a descriptor gets while this user has too
 *                                         many in flight: until they are received, and at the end
 *   internals loans MS                    how long a loan takes by this clock, if its reader gives
 *                                         the slot back late and its stream never does
 */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/resource.h>
#include <time.h>

static long long clock_us;
static void (*while_waiting)(void);
static void (*while_resting)(void);

static int own_clock_gettime(clockid_t clock, struct timespec *now) {
  (void)clock;
  clock_us += 1;
  *now = (struct timespec){clock_us / 1000000, clock_us % 1000000 * 1000};
  return 0;
}

static int own_nanosleep(const struct timespec *rest, struct timespec *left) {
  (void)left;
  clock_us += rest->tv_sec * 1000000 + rest->tv_nsec / 1000;
  if (while_resting != NULL) while_resting();
  return 0;
}

/* Nothing ever happens to a descriptor here. */
static int own_poll(struct pollfd *watched, nfds_t count, int milliseconds) {
  (void)watched, (void)count;
  clock_us += milliseconds < 10 ? milliseconds * 1000 : 10000;
  if (while_waiting != NULL) while_waiting();
  return 0;
}

#define clock_gettime own_clock_gettime
#define nanosleep own_nanosleep
#define poll own_poll
#include "../../../../examples/c/cuda_ipc.c"

static void say_hex(const char *bytes, size_t count) {
  putchar('"');
  for (size_t i = 0; i < count; i++) printf("%02x", (unsigned char)bytes[i]);
  putchar('"');
}

/* Memory of exactly the bytes of a line, so that the sanitizer sees each access beyond it. */
static char *next_line(size_t *length) {
  static char *line;
  static size_t room;
  ssize_t count = getline(&line, &room, stdin);
  if (count < 0) return free(line), line = NULL, NULL;
  *length = (size_t)count / 2;
  char *bytes = malloc(*length);
  for (size_t i = 0; i < *length; i++) {
    unsigned byte;
    sscanf(line + 2 * i, "%2x", &byte);
    bytes[i] = (char)byte;
  }
  return bytes;
}

/* Copies a string into much room, and into each smaller one. */
static void say_string(const struct json *json, int at, size_t room) {
  char *whole = malloc(room);
  size_t length = copy_string(json, at, whole, room);
  say_hex(whole, length);
  for (size_t smaller = 1; smaller <= length && smaller < 16; smaller++) {
    char *part = malloc(smaller);
    size_t kept = copy_string(json, at, part, smaller);
    if (kept >= smaller || part[kept] != 0 || memcmp(part, whole, kept) != 0) abort();
    free(part);
  }
  free(whole);
}

static void parse_lines(void) {
  struct json json = {.tokens = NULL};
  size_t length;
  char *text;
  while ((text = next_line(&length)) != NULL) {
    int said = 0;
    int64_t value;
    if (!parse_json(&json, text, (int)length)) printf("null");
    else {
      printf("[");
      for (int at = 0; at < json.count; at++) {
        integer(&json, at, -INTEGER_MAX, INTEGER_MAX, &value);
        member(&json, at, "name");
        if (json.tokens[at].type != '"') continue;
        if (said++ > 0) printf(",");
        say_string(&json, at, length + 1);
      }
      printf("]");
    }
    printf("\n");
    free(text);
  }
  free(json.tokens);
}

static void succeed_lines(int64_t slots, uint32_t meta_bytes_max, int64_t first_position) {
  cuda_ipc_error error;
  size_t length;
  char *bytes;
  while ((bytes = next_line(&length)) != NULL) {
    cuda_ipc_writer *writer = new_writer(&error);
    struct ring *ring = &writer->ring;
    ring->slots = slots;
    ring->header_stride = header_stride_of(meta_bytes_max);
    ring->first_position = first_position;
    ring->control = (struct cuda_ipc_control *)bytes;
    int status = succeed(writer, &error);
    printf("[\"%s\",%lld,%lld,", status == 0 ? "OK" : error.code, (long long)writer->next,
           (long long)writer->sequence);
    say_hex(bytes, length);
    printf("]\n");
    free(bytes);
    free(writer);
  }
}

static void attach_lines(int64_t slots, uint32_t meta_bytes_max, int64_t first_position,
                         const char *from, bool lossy) {
  cuda_ipc_error error;
  size_t length;
  char *bytes;
  while ((bytes = next_line(&length)) != NULL) {
    struct cuda_ipc_page page = {.lease = 1};
    cuda_ipc_reader reader = {.page = &page, .lossy = lossy, .ring = {.lease = {.lease = 1}}};
    struct ring *ring = &reader.ring;
    ring->slots = slots;
    ring->header_stride = header_stride_of(meta_bytes_max);
    ring->first_position = first_position;
    ring->control = (struct cuda_ipc_control *)bytes;
    if (attach(&reader, from, &error) != 0) printf("[\"%s\"]\n", error.code);
    else printf("[\"OK\",%lld]\n", (long long)reader.next);
    free(bytes);
  }
}

static void take_lines(int64_t slots, uint32_t meta_bytes_max, int64_t limit) {
  cuda_ipc_error error;
  cuda_ipc_message message;
  size_t length;
  char *bytes;
  while ((bytes = next_line(&length)) != NULL) {
    uint8_t is_taken[64] = {0};
    struct cuda_ipc_page page = {.lease = 1};
    cuda_ipc_reader reader = {.page = &page, .lossy = true, .is_taken = is_taken, .expected = -1,
                              .ring = {.lease = {.lease = 1}, .slots = slots}};
    struct ring *ring = &reader.ring;
    ring->slot_bytes = 64;
    ring->meta_bytes_max = meta_bytes_max;
    ring->header_stride = header_stride_of(meta_bytes_max);
    ring->message.item_bytes = 1;
    ring->control = (struct cuda_ipc_control *)bytes;
    STORE(&ring->control->limit, (uint64_t)limit);
    int taken = take(&reader, &message, &error);
    printf("[\"%s\"]\n", taken == TAKEN ? "OK" : taken == NOTHING ? "nothing" : error.code);
    free(bytes);
  }
}

static void say_state(uint32_t meta_bytes_max, uint32_t state) {
  cuda_ipc_error error = {"", ""};
  cuda_ipc_message message;
  struct cuda_ipc_control *control = calloc(1, 1 << 20);
  uint8_t is_taken[1] = {0};
  struct cuda_ipc_page page = {.lease = 1};
  cuda_ipc_reader reader = {.page = &page, .is_taken = is_taken, .expected = -1,
                            .ring = {.lease = {.lease = 1}, .slots = 1, .control = control}};
  reader.ring.header_stride = header_stride_of(meta_bytes_max);
  STORE(&control->state, state);
  int taken = cuda_ipc_reader_next(&reader, &message, 0, &error);
  printf("[\"%s\"]\n", taken == 0 ? "end" : error.code);
  free(control);
}

static struct cuda_ipc_page *late_page;
static long long released_at_us;

/* Gives the only slot back on the CPU. Its stream never does. */
static void release_late(void) {
  if (clock_us < released_at_us) return;
  STORE(&late_page->gpu_released, 1);
  STORE(&late_page->released, 1);
}

static void say_loan(int64_t timeout_ms) {
  int64_t shape[] = {8};
  int fds[5];
  cuda_ipc_error error = {"", ""};
  cuda_ipc_hub hub = {.fd = -1};
  cuda_ipc_channel_options options = {.dtype = "uint8", .rank = 1, .shape = shape, .slots = 1,
                                      .readers_max = 1};
  struct location location = {.byte_length = ROW_ALIGNMENT};
  struct memory page;
  cuda_ipc_slot slot;
  cuda_ipc_writer *writer = new_writer(&error);
  writer->ring.lease.hub = &hub;
  if (set_ring(&writer->ring, "late", &options, &error) != 0 ||
      create_memory(&writer->ring.lease.memory, &location, NULL, false, &fds[0], "late",
          &error) != 0 ||
      create_words(writer, false, "late", fds, &error) != 0 ||
      map_file(&page, fds[3], CUDA_IPC_PAGE_BYTES, true, false, "late", &error) != 0)
    cuda_ipc_die(&error);
  late_page = (struct cuda_ipc_page *)page.cpu;
  STORE(&late_page->lease, 1);
  STORE(&late_page->state, CUDA_IPC_READER_ATTACHED);
  if (cuda_ipc_writer_loan(writer, &slot, timeout_ms, &error) != 0 ||
      cuda_ipc_writer_commit(writer, 8, NULL, 0, 0, &error) != 0)
    cuda_ipc_die(&error);
  long long began_us = clock_us;
  released_at_us = began_us + timeout_ms * 600;
  while_waiting = release_late;
  int status = cuda_ipc_writer_loan(writer, &slot, timeout_ms, &error);
  printf("[\"%s\",%lld,", status == 0 ? "OK" : error.code, (clock_us - began_us) / 1000);
  say_hex(error.message, strlen(error.message));
  printf("]\n");
  unmap_memory(&page);
  unmap_memory(&writer->ring.lease.memory);
  close(fds[0]), close(fds[1]), close(fds[3]);
  free_writer(writer);
}

/* The absolute path of each, and the twin's hash. */
static void say_path(const char *given) {
  cuda_ipc_hub hub = {.fd = -1};
  cuda_ipc_error error = {"", ""};
  char name[64];
  if (choose_path(&hub, given, &error) != 0) cuda_ipc_die(&error);
  if (!twin_name(hub.path, name, sizeof name)) exit(1);
  printf("[\"%s\",\"%s\"]\n", hub.path, strrchr(name, '/') + 1);
}

static int flooded[2];

static void receive_flood(void) {
  char control[1024], byte;
  struct iovec vector = {&byte, 1};
  for (;;) {
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    if (recvmsg(flooded[1], &message, MSG_DONTWAIT) < 0) return;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
      int fds[64], count = (int)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
      memcpy(fds, CMSG_DATA(part), (size_t)count * sizeof(int));
      for (int i = 0; i < count; i++) close(fds[i]);
    }
  }
}

/* Sends descriptors that nobody receives, up to this process's limit of open files. */
static void flood(int fd) {
  union { char bytes[CMSG_SPACE(50 * sizeof(int))]; struct cmsghdr header; } control;
  struct iovec vector = {"x", 1};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control,
                           .msg_controllen = sizeof control};
  control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(50 * sizeof(int)),
                                    .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  for (int i = 0; i < 50; i++) memcpy(CMSG_DATA(&control.header) + i * sizeof fd, &fd, sizeof fd);
  while (sendmsg(flooded[0], &message, MSG_DONTWAIT) >= 0) {}
  if (errno != ETOOMANYREFS) exit(3);
}

static void say_sent(cuda_ipc_hub *hub, int bell) {
  cuda_ipc_error error = {0};
  hub->sent = (struct text){hub->request, 0, sizeof hub->request};
  add(&hub->sent, "late");
  int status = send_request(hub, &bell, 1, now_us() + 100000, &error);
  printf("[\"%s\",\"%s\"]\n", status == 0 ? "OK" : error.code, error.message);
}

static void say_sends(uid_t user) {
  int sockets[2], bell = eventfd(0, EFD_CLOEXEC);
  struct rlimit limit = {100, 100};
  cuda_ipc_hub *hub = calloc(1, sizeof *hub);
  strcpy(hub->path, "/hub.sock");
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || setresuid(user, user, user) != 0) exit(3);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, flooded) != 0) exit(3);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) exit(3);
  hub->fd = sockets[0];
  flood(bell);
  say_sent(hub, bell);
  while_resting = receive_flood;
  say_sent(hub, bell);
  for (int i = 0; i < 2; i++) close(sockets[i]), close(flooded[i]);
  close(bell);
  free(hub);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "json") == 0) parse_lines();
  else if (argc == 5 && strcmp(argv[1], "succeeds") == 0)
    succeed_lines(atoll(argv[2]), (uint32_t)atoi(argv[3]), atoll(argv[4]));
  else if (argc == 7 && strcmp(argv[1], "attaches") == 0)
    attach_lines(atoll(argv[2]), (uint32_t)atoi(argv[3]), atoll(argv[4]), argv[5],
                 strcmp(argv[6], "lossy") == 0);
  else if (argc > 3 && strcmp(argv[1], "states") == 0)
    for (int i = 3; i < argc; i++) say_state((uint32_t)atoi(argv[2]), (uint32_t)atoll(argv[i]));
  else if (argc == 5 && strcmp(argv[1], "takes") == 0)
    take_lines(atoll(argv[2]), (uint32_t)atoi(argv[3]), atoll(argv[4]));
  else if (argc == 3 && strcmp(argv[1], "sends") == 0) say_sends((uid_t)atoi(argv[2]));
  else if (argc == 3 && strcmp(argv[1], "loans") == 0) say_loan(atoll(argv[2]));
  else if (argc > 2 && strcmp(argv[1], "paths") == 0)
    for (int i = 2; i < argc; i++) say_path(argv[i]);
  else return 2;
  return 0;
}
