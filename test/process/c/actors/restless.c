/*
 * The other side of a channel changes its words before each load of the client. The program includes
 * the client's source, with loads that call `before_load` first. It says one line of JSON: how the
 * call ended, and the loads that it took. It ends with 3 if the call goes on and on.
 *   restless takes outruns|passes|loses lossy|waited   a message from a writer that follows no rule
 *   restless nexts MS                      a message until a deadline, by a clock that moves when it
 *                                         is read; the loads are those between two such looks
 *   restless attaches rises|hides lossy|waited FROM    a reader to such a writer
 *   restless writes                        to a lossy reader that always claims the next slot
 *   restless waits                         for a stream that is done at every other load
 *   restless honest lossy|waited FROM SLOTS COUNT      a reader of a writer that writes COUNT messages
 *                                         before each load, which attaches and takes
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void (*before_load)(void);
static long long loads, loads_max = 60000;

static void count_load(void) {
  void (*change)(void) = before_load;
  if (change == NULL) return;
  if (++loads > loads_max) fprintf(stderr, "it looks on and on: %lld loads\n", loads), exit(3);
  /* Its own loads change nothing. */
  before_load = NULL;
  change();
  before_load = change;
}

static long long clock_us;

static int own_clock_gettime(clockid_t clock, struct timespec *now) {
  (void)clock;
  loads = 0;
  clock_us += 1;
  *now = (struct timespec){clock_us / 1000000, clock_us % 1000000 * 1000};
  return 0;
}

#define clock_gettime own_clock_gettime
#define __atomic_load_n(at, order) (count_load(), __atomic_load_n(at, order))
#include "../../../../examples/c/cuda_ipc.c"

static struct memory page_memory;
static cuda_ipc_hub hub = {.fd = -1};
static cuda_ipc_writer *writer;
static cuda_ipc_reader reader;
static uint8_t is_taken[4096];
static int64_t moved, messages;

/* A channel with one reader, which is not attached. */
static void create(int64_t slots, uint32_t when_full) {
  int64_t shape[] = {8};
  int fds[5];
  cuda_ipc_error error = {"", ""};
  cuda_ipc_channel_options options = {.dtype = "uint8", .rank = 1, .shape = shape,
                                      .slots = (int)slots, .readers_max = 1,
                                      .when_full = when_full};
  writer = new_writer(&error);
  writer->ring.lease.hub = &hub;
  if (set_ring(&writer->ring, "restless", &options, &error) != 0 ||
      create_words(writer, false, "restless", fds, &error) != 0 ||
      map_file(&page_memory, fds[3], CUDA_IPC_PAGE_BYTES, true, false, "restless", &error) != 0)
    cuda_ipc_die(&error);
  close(fds[1]), close(fds[3]);
  reader.ring = writer->ring;
  reader.ring.lease.lease = 1;
  reader.page = (struct cuda_ipc_page *)page_memory.cpu;
  reader.is_taken = is_taken;
  reader.expected = -1;
  STORE(&reader.page->lease, 1);
}

static void destroy(void) {
  unmap_memory(&page_memory);
  free_writer(writer);
}

static struct cuda_ipc_header *next_header(void) {
  return header_of(&reader.ring, slot_of(&reader.ring, reader.next));
}

static void move_to(int64_t position) {
  STORE(&reader.ring.control->published, (uint64_t)position);
  STORE(&reader.ring.control->limit, (uint64_t)position);
}

static void outruns(void) {
  move_to(moved += 2 * reader.ring.slots + 1);
  for (int64_t slot = 0; slot < reader.ring.slots; slot++)
    STORE(&header_of(&reader.ring, slot)->generation, (uint64_t)1 << 50);
}

static void passes(void) {
  move_to(reader.next + reader.ring.slots);
  STORE(&next_header()->passed_over, (uint64_t)reader.next + 1);
}

static void loses(void) {
  struct cuda_ipc_header *header = next_header();
  move_to(reader.next + reader.ring.slots);
  header->flags = CUDA_IPC_FLAG_LOST;
  header->sequence = (uint64_t)reader.next;
  STORE(&header->generation, (uint64_t)reader.next + 1);
}

static void rises(void) { move_to(moved += 2 * reader.ring.slots + 1); }

/* It moves on by one, and no header says anything. */
static void hides(void) {
  moved += 1;
  STORE(&reader.ring.control->published, (uint64_t)(2 * reader.ring.slots + moved));
  STORE(&reader.ring.control->limit, (uint64_t)(2 * reader.ring.slots + moved + 1));
}

static void claims(void) { STORE(&reader.page->claims[0], writer->next - writer->ring.slots + 1); }

static void flips(void) {
  moved = !moved;
  STORE(&reader.page->done[0], moved);
}

static void write_one(void) {
  cuda_ipc_error error;
  bool by_stream = false;
  if (!reserve(writer, &by_stream)) return;
  writer->is_loaned = true;
  if (cuda_ipc_writer_commit(writer, 8, NULL, 0, 0, &error) != 0) cuda_ipc_die(&error);
}

static void write_some(void) {
  for (int64_t i = 0; i < messages; i++) write_one();
}

static int say(const char *how) {
  before_load = NULL;
  printf("[\"");
  for (; *how != 0; how++) printf(*how == '"' ? "\\\"" : "%c", *how);
  return printf("\",%lld]\n", loads);
}

static void (*change_of(const char *kind))(void) {
  if (strcmp(kind, "outruns") == 0) return outruns;
  if (strcmp(kind, "passes") == 0) return passes;
  if (strcmp(kind, "loses") == 0) return loses;
  return strcmp(kind, "rises") == 0 ? rises : hides;
}

static void take_from(const char *kind) {
  cuda_ipc_error error = {"", ""};
  cuda_ipc_message message;
  create(4, CUDA_IPC_WHEN_FULL_DROP_OLDEST);
  before_load = change_of(kind);
  int taken = take(&reader, &message, &error);
  before_load = NULL;
  int claimed = 0;
  for (int c = 0; c < CUDA_IPC_CLAIMS; c++) claimed += reader.page->claims[c] != 0;
  say(taken == TAKEN || claimed > 0 ? "taken" : taken != NOTHING ? error.code
      : reader.is_outrun ? "outrun" : "nothing");
}

static void wait_for_next(int64_t timeout_ms) {
  cuda_ipc_error error = {"", ""};
  cuda_ipc_message message;
  create(4, CUDA_IPC_WHEN_FULL_DROP_OLDEST);
  reader.lossy = true;
  before_load = outruns;
  say(cuda_ipc_reader_next(&reader, &message, timeout_ms, &error) < 0 ? error.message : "taken");
}

static void attach_to(const char *kind, const char *from) {
  cuda_ipc_error error = {"", ""};
  bool hides_all = strcmp(kind, "hides") == 0;
  create(hides_all ? 1024 : 4, CUDA_IPC_WHEN_FULL_DROP_OLDEST);
  reader.ring.first_position = hides_all ? 7 : 0;
  if (hides_all) move_to(7), hides();
  else for (int i = 0; i < 4; i++) write_one();
  before_load = change_of(kind);
  say(attach(&reader, from, &error) == 0 ? "OK" : error.code);
}

static void write_to_claims(void) {
  bool by_stream = false;
  create(2048, CUDA_IPC_WHEN_FULL_DROP_OLDEST);
  loads_max = 1 << 20;
  STORE(&reader.page->mode, CUDA_IPC_MODE_LOSSY);
  STORE(&reader.page->state, CUDA_IPC_READER_ATTACHED);
  for (int i = 0; i < 2048; i++) write_one();
  before_load = claims;
  bool found = reserve(writer, &by_stream);
  before_load = NULL;
  loads = writer->next - 2048;
  say(found ? "free" : "full");
}

static void wait_for_flips(void) {
  create(1, CUDA_IPC_WHEN_FULL_WAIT);
  write_one();
  STORE(&reader.page->state, CUDA_IPC_READER_ATTACHED);
  STORE(&reader.page->gpu_released, 1);
  STORE(&reader.page->released, 1);
  bool by_stream = false;
  if (!reserve(writer, &by_stream)) say("full");
  writer->timeout_ms = CUDA_IPC_FOREVER;
  /* 0 at the first load, 1 at the second one, 0 at the third one. */
  moved = 1;
  before_load = flips;
  say(wait_for_streams(writer) == 0 ? "OK" : "late");
}

static int be_honest(bool lossy, const char *from, int64_t slots, int64_t count) {
  cuda_ipc_error error = {"", ""};
  cuda_ipc_message message;
  create(slots, lossy ? CUDA_IPC_WHEN_FULL_DROP_OLDEST : CUDA_IPC_WHEN_FULL_WAIT);
  reader.lossy = lossy;
  messages = count;
  write_one();
  before_load = write_some;
  if (attach(&reader, from, &error) != 0) return say(error.code);
  loads = 0;
  int taken = take(&reader, &message, &error);
  before_load = NULL;
  if (taken < 0) return say(error.code);
  if (taken == TAKEN) cuda_ipc_reader_release(&reader, &message);
  bool was_outrun = reader.is_outrun;
  do {
    while ((taken = take(&reader, &message, &error)) == TAKEN)
      cuda_ipc_reader_release(&reader, &message);
    if (taken < 0) return say(error.code);
  } while (reader.is_outrun);
  write_one();
  if (take(&reader, &message, &error) != TAKEN) return say("nothing after all");
  if (message.sequence != writer->sequence - 1) return say("another message");
  return say(was_outrun ? "outrun" : "OK");
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  reader.lossy = argc > 3 && strcmp(argv[3], "lossy") == 0;
  if (strcmp(argv[1], "takes") == 0 && argc == 4) take_from(argv[2]);
  else if (strcmp(argv[1], "nexts") == 0 && argc == 3) wait_for_next(atoll(argv[2]));
  else if (strcmp(argv[1], "attaches") == 0 && argc == 5) attach_to(argv[2], argv[4]);
  else if (strcmp(argv[1], "writes") == 0) write_to_claims();
  else if (strcmp(argv[1], "waits") == 0) wait_for_flips();
  else if (strcmp(argv[1], "honest") == 0 && argc == 6)
    be_honest(strcmp(argv[2], "lossy") == 0, argv[3], atoll(argv[4]), atoll(argv[5]));
  else return 2;
  destroy();
  return 0;
}
