/*
 * One end of an existing channel: a writer that waits for its readers, or a reader that it waits
 * for. It uses the same words in the same order as src/ring, but trusts the other side. GPU streams
 * and lossy readers are not supported.
 */
#ifndef BENCH_RING_H
#define BENCH_RING_H

#include "common.h"
#include "ring-layout.h"
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

typedef _Atomic int64_t word64;
typedef _Atomic uint32_t word32;

static inline word64 *word_at(uint8_t *bytes, size_t offset) { return (word64 *)(bytes + offset); }
static inline word32 *word32_at(uint8_t *bytes, size_t offset) { return (word32 *)(bytes + offset); }
/* Plain memory: written before an atomic store of a word, read after an atomic load. */
static inline int64_t *count_at(uint8_t *bytes, size_t offset) { return (int64_t *)(bytes + offset); }
static inline uint32_t *count32_at(uint8_t *bytes, size_t offset) { return (uint32_t *)(bytes + offset); }

/*
 * The descriptors of one end, as a hub passes them: a writer gets all seats, a reader gets its own.
 */
struct ring_fds { int data, control, room_bell; uint32_t seats; int pages[SEATS_MAX], bells[SEATS_MAX]; };

struct ring {
  uint8_t *data, *control;
  /* Copied when the ring is opened, so that nobody can change them during a loop. */
  uint32_t slots, readers_max, header_stride, headers_at;
  int64_t slot_stride;
};

static inline uint8_t *map_file(int fd, int protection, int64_t *bytes) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) fail("fstat: %s", strerror(errno));
  void *mapped = mmap(NULL, facts.st_size, protection, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (mapped == MAP_FAILED) fail("mmap: %s", strerror(errno));
  *bytes = facts.st_size;
  return mapped;
}

static inline struct ring map_ring(const struct ring_fds *fds, int protection) {
  int64_t data_bytes, control_bytes;
  uint8_t *data = map_file(fds->data, protection, &data_bytes), *control = map_file(fds->control, protection, &control_bytes);
  if (control_bytes < CONTROL_headers) fail("a control file of %ld bytes", control_bytes);
  if (*count32_at(control, CONTROL_magic) != MAGIC_0 || *count32_at(control, CONTROL_magic + 4) != MAGIC_1) fail("not a channel");
  uint32_t version = *count32_at(control, CONTROL_version);
  if (version != CHANNEL_VERSION) fail("a channel of version %u", version);
  struct ring ring = {
      .data = data,
      .control = control,
      .slots = *count32_at(control, CONTROL_slots),
      .readers_max = *count32_at(control, CONTROL_readersMax),
      .header_stride = *count32_at(control, CONTROL_headerStride),
      .headers_at = *count32_at(control, CONTROL_headersAt),
      .slot_stride = *count_at(control, CONTROL_slotStride),
  };
  int64_t slots = ring.slots;
  if (ring.readers_max > SEATS_MAX) fail("a channel of %u readers", ring.readers_max);
  if (ring.headers_at + slots * ring.header_stride > control_bytes) fail("headers that are too large for their file");
  if (slots * ring.slot_stride > data_bytes) fail("slots that are too large for their memory");
  return ring;
}

static inline uint8_t *slot_at(const struct ring *ring, uint32_t slot) { return ring->data + slot * ring->slot_stride; }
static inline uint8_t *header_at(const struct ring *ring, uint32_t slot) {
  return ring->control + ring->headers_at + (size_t)slot * ring->header_stride;
}
static inline uint32_t slot_after(const struct ring *ring, uint32_t slot) { return slot + 1 == ring->slots ? 0 : slot + 1; }

static inline void ring_bell(int bell) {
  uint64_t once = 1;
  if (write(bell, &once, sizeof once) < 0 && errno != EAGAIN) fail("ring a bell: %s", strerror(errno));
}

/* Waits until the bell has rung, and resets it. Reading never blocks: bells are non-blocking. */
static inline void hear_bell(int bell) {
  struct pollfd watched = {.fd = bell, .events = POLLIN};
  uint64_t rung;
  int ready = poll(&watched, 1, (int)(LIMIT_US / 1000));
  if (ready < 0 && errno != EINTR) fail("poll: %s", strerror(errno));
  if (ready == 0) fail("a bell: silent for %.0f s", LIMIT_US / 1e6);
  if (read(bell, &rung, sizeof rung) < 0 && errno != EAGAIN) fail("hear a bell: %s", strerror(errno));
}

/* ---- the writer ---- */

/* A reader as its writer sees it. */
struct seat {
  uint8_t *page;
  int bell;
  /* The lease seen last, and the first position that this reader can rely on. */
  int64_t lease, entitled_from;
  /* The reader's sleep for which its bell was last rung. */
  uint32_t rung;
};

struct ring_writer {
  struct ring ring;
  struct seat seats[SEATS_MAX];
  int room_bell;
  /*
   * `next` is written next. Below `may_write`, no look at the readers is needed. `limit` is
   * announced to readers.
   */
  int64_t next, may_write, limit, sequence;
  uint32_t slot, epoch;
};

/* Continues where the last writer stopped. */
static inline struct ring_writer open_writer(const struct ring_fds *fds) {
  struct ring_writer writer = {.ring = map_ring(fds, PROT_READ | PROT_WRITE), .room_bell = fds->room_bell};
  uint8_t *control = writer.ring.control;
  int64_t bytes;
  if (fds->seats != writer.ring.readers_max) fail("%u seats of a channel with %u", fds->seats, writer.ring.readers_max);
  if (*count32_at(control, CONTROL_whenFull) != WHEN_FULL_WAIT) fail("a channel whose writer does not wait");
  for (uint32_t seat = 0; seat < fds->seats; seat++) {
    writer.seats[seat].page = map_file(fds->pages[seat], PROT_READ, &bytes);
    writer.seats[seat].bell = fds->bells[seat];
  }
  writer.next = writer.may_write = atomic_load(word_at(control, CONTROL_published));
  writer.slot = writer.next % writer.ring.slots;
  writer.limit = atomic_load(word_at(control, CONTROL_limit));
  writer.sequence = *count_at(control, CONTROL_sequence);
  writer.epoch = *count32_at(control, CONTROL_epoch);
  return writer;
}

/*
 * Returns the first position that the readers do not allow yet. A newly seen reader can rely on
 * positions from `oldest` on.
 */
static inline int64_t scan_readers(struct ring_writer *writer, int64_t oldest) {
  int64_t bound = INT64_MAX;
  for (uint32_t i = 0; i < writer->ring.readers_max; i++) {
    struct seat *seat = &writer->seats[i];
    if (atomic_load(word32_at(seat->page, PAGE_state)) != READER_ATTACHED) continue;
    int64_t lease = atomic_load(word_at(seat->page, PAGE_lease));
    if (lease == 0) continue;
    if (lease != seat->lease) {
      seat->lease = lease;
      seat->entitled_from = oldest;
    }
    if (atomic_load(word32_at(seat->page, PAGE_mode)) != READER_WAITED_FOR) fail("seat %u is lossy", i);
    int64_t released = atomic_load(word_at(seat->page, PAGE_released));
    if (released < seat->entitled_from) released = seat->entitled_from;
    if (released + writer->ring.slots < bound) bound = released + writer->ring.slots;
  }
  return bound;
}

/* Returns whether there is a slot for the next message. */
static inline int try_reserve(struct ring_writer *writer) {
  if (writer->next < writer->may_write) return 1;
  int64_t oldest = writer->limit - writer->ring.slots;
  int64_t bound = scan_readers(writer, oldest), target = writer->next + window_of(writer->ring.slots);
  if (target > bound) target = bound;
  if (target <= writer->next) return 0;
  if (target > writer->limit) {
    writer->limit = target;
    /*
     * SYNC: before the second scan, so that a reader which it misses sees this limit. Pairs with
     * the load in open_reader.
     */
    atomic_store(word_at(writer->ring.control, CONTROL_limit), target);
  }
  bound = scan_readers(writer, oldest);
  writer->may_write = target < bound ? target : bound;
  return writer->next < writer->may_write;
}

static inline void reserve(struct ring_writer *writer) {
  struct limit limit = {0};
  while (!try_reserve(writer)) check_limit(&limit, "room in the ring");
}

static inline uint8_t *reserved_slot(const struct ring_writer *writer) { return slot_at(&writer->ring, writer->slot); }

static inline void wake_readers(struct ring_writer *writer) {
  for (uint32_t i = 0; i < writer->ring.readers_max; i++) {
    struct seat *seat = &writer->seats[i];
    /*
     * SYNC: after the generation. Either this load sees the sleep, or the reader sees the message.
     * Pairs with take_asleep.
     */
    uint32_t asleep = atomic_load(word32_at(seat->page, PAGE_asleep));
    if (asleep % 2 == 0 || asleep == seat->rung) continue;
    seat->rung = asleep;
    ring_bell(seat->bell);
  }
}

static inline double wall_clock_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* Publishes the data in the reserved slot as the next message. */
static inline void commit(struct ring_writer *writer, int64_t byte_length) {
  uint8_t *header = header_at(&writer->ring, writer->slot);
  *count_at(header, HEADER_sequence) = writer->sequence++;
  *(double *)(header + HEADER_timestampMs) = wall_clock_ms();
  *count_at(header, HEADER_byteLength) = byte_length;
  *count_at(header, HEADER_readyAt) = 0;
  *count32_at(header, HEADER_epoch) = writer->epoch;
  *count32_at(header, HEADER_flags) = 0;
  *count32_at(header, HEADER_metaBytes) = 0;
  /*
   * SYNC: a reader that sees this generation also sees the message and its header. Pairs with the
   * load in try_take.
   */
  atomic_store(word_at(header, HEADER_generation), writer->next + 1);
  *count_at(writer->ring.control, CONTROL_sequence) = writer->sequence;
  writer->next += 1;
  writer->slot = slot_after(&writer->ring, writer->slot);
  /* Readers load this later, or never. The store of the generation already orders both sides. */
  atomic_store_explicit(word_at(writer->ring.control, CONTROL_published), writer->next, memory_order_release);
  wake_readers(writer);
}

/* Readers see the end after they have taken all messages. */
static inline void end_channel(struct ring_writer *writer) {
  atomic_store(word32_at(writer->ring.control, CONTROL_state), WRITER_CLOSED);
  wake_readers(writer);
}

/* ---- a reader ---- */

struct ring_reader {
  struct ring ring;
  uint8_t *page;
  int bell, room_bell;
  /* The position to take next. */
  int64_t position;
  uint32_t slot, rung, asleep;
};

/* Starts at the oldest message that is still there, and uses the only page and bell in `fds`. */
static inline struct ring_reader open_reader(const struct ring_fds *fds) {
  struct ring_reader reader = {.ring = map_ring(fds, PROT_READ), .bell = fds->bells[0], .room_bell = fds->room_bell};
  uint8_t *control = reader.ring.control;
  int64_t bytes;
  uint8_t *page = reader.page = map_file(fds->pages[0], PROT_READ | PROT_WRITE, &bytes);
  reader.asleep = (atomic_load(word32_at(page, PAGE_asleep)) + 1) & ~1u;
  atomic_store(word32_at(page, PAGE_asleep), reader.asleep);
  atomic_store(word32_at(page, PAGE_mode), READER_WAITED_FOR);
  reader.position = *count_at(control, CONTROL_firstPosition);
  for (int attached = 0;; attached = 1) {
    int64_t oldest = atomic_load(word_at(control, CONTROL_limit)) - reader.ring.slots;
    if (attached && reader.position >= oldest) break;
    if (reader.position < oldest) reader.position = oldest;
    atomic_store(word_at(page, PAGE_done), reader.position);
    atomic_store(word_at(page, PAGE_released), reader.position);
    /*
     * SYNC: if a scan misses this store, the limit was stored before it, and the next round sees
     * that limit. Pairs with try_reserve.
     */
    if (!attached) atomic_store(word32_at(page, PAGE_state), READER_ATTACHED);
  }
  reader.slot = reader.position % reader.ring.slots;
  return reader;
}

/* Returns whether the message at the reader's position is there. This writer skips no position. */
static inline int try_take(struct ring_reader *reader) {
  /* SYNC: pairs with the store in commit. */
  return atomic_load(word_at(header_at(&reader->ring, reader->slot), HEADER_generation)) == reader->position + 1;
}

static inline void take(struct ring_reader *reader) {
  struct limit limit = {0};
  while (!try_take(reader)) check_limit(&limit, "a message in the ring");
}

/* Sleeps until the next message is there. */
static inline void take_asleep(struct ring_reader *reader) {
  word32 *asleep = word32_at(reader->page, PAGE_asleep);
  while (!try_take(reader)) {
    /* SYNC: before the second look, so that one side sees the other. Pairs with wake_readers. */
    atomic_store(asleep, ++reader->asleep);
    if (!try_take(reader)) hear_bell(reader->bell);
    atomic_store(asleep, ++reader->asleep);
  }
}

static inline uint8_t *taken_slot(const struct ring_reader *reader) { return slot_at(&reader->ring, reader->slot); }
static inline int64_t taken_bytes(const struct ring_reader *reader) {
  return *count_at(header_at(&reader->ring, reader->slot), HEADER_byteLength);
}

/* Releases the slot and moves to the next position. */
static inline void release(struct ring_reader *reader) {
  reader->position += 1;
  reader->slot = slot_after(&reader->ring, reader->slot);
  *count_at(reader->page, PAGE_received) += 1;
  /* SYNC: after the writer sees this, it may overwrite the slot. Pairs with scan_readers. */
  atomic_store(word_at(reader->page, PAGE_released), reader->position);
  /*
   * SYNC: after that store. Either this load sees that the writer sleeps, or the writer sees the
   * free slot.
   */
  uint32_t asleep = atomic_load(word32_at(reader->ring.control, CONTROL_asleep));
  if (asleep % 2 == 0 || asleep == reader->rung) return;
  reader->rung = asleep;
  ring_bell(reader->room_bell);
}

#endif
