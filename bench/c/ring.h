/*
 * One end of a channel over memory that somebody made: a writer that waits for its readers, or a reader that is waited for. The same
 * words in the same order as in src/ring; no GPU order, and no reader that may be overtaken.
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

typedef _Atomic uint64_t word64;
typedef _Atomic uint32_t word32;

static inline word64 *word_at(uint8_t *bytes, size_t offset) { return (word64 *)(bytes + offset); }
static inline word32 *word32_at(uint8_t *bytes, size_t offset) { return (word32 *)(bytes + offset); }

/* Descriptors of one end, as a hub hands them out: all places of a writer, the one of a reader. */
struct ring_fds { int data, control, room_bell; uint32_t places; int pages[PLACES_MAX], bells[PLACES_MAX]; };

struct ring {
  uint8_t *data, *control;
  /* Copied when it is opened: nobody can change them under a running loop. */
  uint32_t slots, readers_max, header_stride, headers_at;
  uint64_t slot_stride;
};

static inline uint8_t *map_file(int fd, int protection, size_t *bytes) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) fail("fstat: %s", strerror(errno));
  void *mapped = mmap(NULL, facts.st_size, protection, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (mapped == MAP_FAILED) fail("mmap: %s", strerror(errno));
  *bytes = facts.st_size;
  return mapped;
}

static inline struct ring map_ring(const struct ring_fds *fds, int protection) {
  size_t data_bytes, control_bytes;
  struct ring ring = {.data = map_file(fds->data, protection, &data_bytes), .control = map_file(fds->control, protection, &control_bytes)};
  uint8_t *control = ring.control;
  if (control_bytes < CONTROL_headers) fail("a control file of %zu bytes", control_bytes);
  if (*word32_at(control, CONTROL_magic) != MAGIC_0 || *word32_at(control, CONTROL_magic + 4) != MAGIC_1) fail("not a channel");
  if (*word32_at(control, CONTROL_version) != CHANNEL_VERSION) fail("a channel of version %u", *word32_at(control, CONTROL_version));
  ring.slots = *word32_at(control, CONTROL_slots);
  ring.readers_max = *word32_at(control, CONTROL_readersMax);
  ring.header_stride = *word32_at(control, CONTROL_headerStride);
  ring.headers_at = *word32_at(control, CONTROL_headersAt);
  ring.slot_stride = *word_at(control, CONTROL_slotStride);
  if (ring.readers_max > PLACES_MAX || ring.headers_at + (uint64_t)ring.slots * ring.header_stride > control_bytes) fail("a channel that is too large for its file");
  if (ring.slots * ring.slot_stride > data_bytes) fail("slots that are too large for their memory");
  return ring;
}

static inline uint8_t *slot_at(const struct ring *ring, uint64_t position) { return ring->data + position % ring->slots * ring->slot_stride; }
static inline uint8_t *header_at(const struct ring *ring, uint64_t position) {
  return ring->control + ring->headers_at + position % ring->slots * ring->header_stride;
}

static inline void ring_bell(int bell) {
  uint64_t once = 1;
  if (write(bell, &once, sizeof once) < 0 && errno != EAGAIN) fail("ring a bell: %s", strerror(errno));
}

/* Until it has rung, and makes it silent. Bells do not block, whoever made them. */
static inline void hear_bell(int bell) {
  struct pollfd watched = {.fd = bell, .events = POLLIN};
  uint64_t rung;
  int ready = poll(&watched, 1, (int)(LIMIT_US / 1000));
  if (ready < 0 && errno != EINTR) fail("poll: %s", strerror(errno));
  if (ready == 0) fail("a bell: silent for %.0f s", LIMIT_US / 1e6);
  if (read(bell, &rung, sizeof rung) < 0 && errno != EAGAIN) fail("hear a bell: %s", strerror(errno));
}

/* ---- the writer ---- */

struct ring_writer {
  struct ring ring;
  uint8_t *pages[PLACES_MAX];
  int bells[PLACES_MAX], room_bell;
  /* The position that is written next; those below `may_write` need no look at the readers, and `limit` is what was announced. */
  uint64_t next, may_write, limit, sequence;
  /* For which sleep of each reader its bell was rung. */
  uint32_t rung[PLACES_MAX];
  uint32_t epoch, asleep;
};

/* Goes on where the words say that a writer was. */
static inline struct ring_writer open_writer(const struct ring_fds *fds) {
  struct ring_writer writer = {.ring = map_ring(fds, PROT_READ | PROT_WRITE), .room_bell = fds->room_bell};
  uint8_t *control = writer.ring.control;
  size_t bytes;
  if (fds->places != writer.ring.readers_max) fail("%u places of a channel with %u", fds->places, writer.ring.readers_max);
  if (*word32_at(control, CONTROL_whenFull) != WHEN_FULL_WAIT) fail("a channel whose writer does not wait");
  for (uint32_t place = 0; place < fds->places; place++) {
    writer.pages[place] = map_file(fds->pages[place], PROT_READ, &bytes);
    writer.bells[place] = fds->bells[place];
  }
  writer.next = writer.may_write = atomic_load(word_at(control, CONTROL_published));
  writer.limit = atomic_load(word_at(control, CONTROL_limit));
  writer.sequence = atomic_load(word_at(control, CONTROL_sequence));
  writer.epoch = atomic_load(word32_at(control, CONTROL_epoch));
  writer.asleep = atomic_load(word32_at(control, CONTROL_asleep));
  return writer;
}

/* Positions below this may be written, as far as the readers go. */
static inline uint64_t scan_readers(const struct ring_writer *writer) {
  const uint32_t slots = writer->ring.slots;
  const uint64_t oldest = writer->limit > slots ? writer->limit - slots : 0;
  uint64_t bound = UINT64_MAX;
  for (uint32_t place = 0; place < writer->ring.readers_max; place++) {
    uint8_t *page = writer->pages[place];
    if (atomic_load(word32_at(page, PAGE_state)) != READER_ATTACHED) continue;
    if (atomic_load(word32_at(page, PAGE_mode)) != READER_WAITED_FOR) fail("place %u may be overtaken", place);
    uint64_t released = atomic_load(word_at(page, PAGE_released));
    if (released < oldest) released = oldest;
    if (released + slots < bound) bound = released + slots;
  }
  return bound;
}

/* Whether there is a slot for the next message. */
static inline int try_reserve(struct ring_writer *writer) {
  if (writer->next < writer->may_write) return 1;
  uint64_t bound = scan_readers(writer), target = writer->next + window_of(writer->ring.slots);
  if (target > bound) target = bound;
  if (target <= writer->next) return 0;
  if (target > writer->limit) {
    writer->limit = target;
    /* SYNC: a reader that attaches after the scan below sees this. Pairs with the load of the limit in open_reader. */
    atomic_store(word_at(writer->ring.control, CONTROL_limit), target);
  }
  bound = scan_readers(writer);
  writer->may_write = target < bound ? target : bound;
  return writer->next < writer->may_write;
}

static inline uint8_t *reserved_slot(const struct ring_writer *writer) { return slot_at(&writer->ring, writer->next); }

static inline void wake_readers(struct ring_writer *writer) {
  for (uint32_t place = 0; place < writer->ring.readers_max; place++) {
    /* SYNC: after the store of `published`; a reader that is not seen asleep here looks again before it sleeps. Pairs with reader_sleep. */
    uint32_t asleep = atomic_load(word32_at(writer->pages[place], PAGE_asleep));
    if (asleep % 2 == 0 || asleep == writer->rung[place]) continue;
    writer->rung[place] = asleep;
    ring_bell(writer->bells[place]);
  }
}

static inline double wall_clock_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* Makes what lies in the reserved slot the next message. */
static inline void commit(struct ring_writer *writer, uint64_t byte_length) {
  uint8_t *header = header_at(&writer->ring, writer->next);
  double timestamp_ms = wall_clock_ms();
  *(uint64_t *)(header + HEADER_position) = writer->next;
  *(uint64_t *)(header + HEADER_sequence) = writer->sequence++;
  memcpy(header + HEADER_timestampMs, &timestamp_ms, sizeof timestamp_ms);
  *(uint64_t *)(header + HEADER_byteLength) = byte_length;
  *(uint64_t *)(header + HEADER_readyAt) = 0;
  *(uint32_t *)(header + HEADER_epoch) = writer->epoch;
  *(uint32_t *)(header + HEADER_flags) = 0;
  *(uint32_t *)(header + HEADER_metaBytes) = 0;
  *(uint32_t *)(header + HEADER_rank) = 0;
  writer->next += 1;
  atomic_store_explicit(word_at(writer->ring.control, CONTROL_sequence), writer->sequence, memory_order_relaxed);
  /* SYNC: the message and its header are visible to whoever sees this. Pairs with the load in try_take. */
  atomic_store(word_at(writer->ring.control, CONTROL_published), writer->next);
  wake_readers(writer);
}

static inline void reserve(struct ring_writer *writer) {
  struct limit limit = {0};
  while (!try_reserve(writer)) check_limit(&limit, "room in the ring");
}

/* Readers see the end once they have taken everything. */
static inline void end_channel(struct ring_writer *writer) {
  atomic_store(word32_at(writer->ring.control, CONTROL_state), WRITER_CLOSED);
  wake_readers(writer);
}

/* ---- a reader ---- */

struct ring_reader {
  struct ring ring;
  uint8_t *page;
  int bell, room_bell;
  /* The position that is taken next; those below `published` are known to be there. */
  uint64_t position, published;
  uint32_t rung, asleep;
};

/* At the first message that is still there, in the place of the one page and bell. */
static inline struct ring_reader open_reader(const struct ring_fds *fds) {
  struct ring_reader reader = {.ring = map_ring(fds, PROT_READ), .bell = fds->bells[0], .room_bell = fds->room_bell};
  uint8_t *control = reader.ring.control;
  const uint32_t slots = reader.ring.slots;
  size_t bytes;
  reader.page = map_file(fds->pages[0], PROT_READ | PROT_WRITE, &bytes);
  reader.published = atomic_load(word_at(control, CONTROL_published));
  reader.asleep = atomic_load(word32_at(reader.page, PAGE_asleep));
  reader.position = *word_at(control, CONTROL_firstPosition);
  if (reader.published > slots && reader.position < reader.published - slots) reader.position = reader.published - slots;
  for (;;) {
    for (int i = 0; i < 3; i++) {
      static const int words[] = {PAGE_done, PAGE_released, PAGE_taken};
      atomic_store(word_at(reader.page, words[i]), reader.position);
    }
    atomic_store(word32_at(reader.page, PAGE_mode), READER_WAITED_FOR);
    /* SYNC: a writer whose scan missed this had announced its limit before, and that is seen here. Pairs with try_reserve. */
    atomic_store(word32_at(reader.page, PAGE_state), READER_ATTACHED);
    uint64_t limit = atomic_load(word_at(control, CONTROL_limit));
    if (limit <= slots || reader.position >= limit - slots) return reader;
    reader.position = limit - slots;
  }
}

/* Whether there is a message at the reader's position, which is the one that is taken. */
static inline int try_take(struct ring_reader *reader) {
  if (reader->position >= reader->published) {
    /* SYNC: pairs with the store in commit. */
    reader->published = atomic_load(word_at(reader->ring.control, CONTROL_published));
    if (reader->position >= reader->published) return 0;
  }
  uint64_t position = *(uint64_t *)(header_at(&reader->ring, reader->position) + HEADER_position);
  if (position != reader->position) fail("a header of position %lu at %lu", position, reader->position);
  return 1;
}

static inline uint8_t *taken_slot(const struct ring_reader *reader) { return slot_at(&reader->ring, reader->position); }
static inline uint64_t taken_bytes(const struct ring_reader *reader) {
  return *(uint64_t *)(header_at(&reader->ring, reader->position) + HEADER_byteLength);
}

/* Gives back what was taken, and goes to the next position. */
static inline void release(struct ring_reader *reader) {
  reader->position += 1;
  atomic_store_explicit(word_at(reader->page, PAGE_received), reader->position, memory_order_relaxed);
  /* SYNC: the writer may write to the slot when it sees this. Pairs with scan_readers. */
  atomic_store(word_at(reader->page, PAGE_released), reader->position);
  uint32_t asleep = atomic_load(word32_at(reader->ring.control, CONTROL_asleep));
  if (asleep % 2 == 0 || asleep == reader->rung) return;
  reader->rung = asleep;
  ring_bell(reader->room_bell);
}

static inline void take(struct ring_reader *reader) {
  struct limit limit = {0};
  while (!try_take(reader)) check_limit(&limit, "a message in the ring");
}

/* Sleeps until a message is there. */
static inline void take_asleep(struct ring_reader *reader) {
  word32 *asleep = word32_at(reader->page, PAGE_asleep);
  while (!try_take(reader)) {
    /* SYNC: said before it looks again, so that one of the two sees the other. Pairs with wake_readers. */
    atomic_store(asleep, ++reader->asleep);
    if (!try_take(reader)) hear_bell(reader->bell);
    atomic_store(asleep, ++reader->asleep);
  }
}

#endif
