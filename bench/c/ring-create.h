/*
 * Creates the memory and bells of a channel, like a hub and a writer do. Each seat is ready for a
 * reader.
 */
#ifndef BENCH_RING_CREATE_H
#define BENCH_RING_CREATE_H

#include "ring.h"

#define POISON INT64_MAX

static inline int create_file(const char *name, int64_t bytes) {
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, bytes) != 0) fail("memfd: %s", strerror(errno));
  return fd;
}

static inline int create_bell(void) {
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) fail("eventfd: %s", strerror(errno));
  return fd;
}

static inline int create_control(const struct channel_facts *facts) {
  int64_t bytes;
  int fd = create_file("control", control_bytes_of(facts->slots, facts->meta_bytes_max));
  uint8_t *control = map_file(fd, PROT_READ | PROT_WRITE, &bytes);
  *count32_at(control, CONTROL_magic) = MAGIC_0;
  *count32_at(control, CONTROL_magic + 4) = MAGIC_1;
  *count32_at(control, CONTROL_version) = CHANNEL_VERSION;
  *count32_at(control, CONTROL_slots) = facts->slots;
  *count32_at(control, CONTROL_readersMax) = facts->readers_max;
  *count32_at(control, CONTROL_metaBytesMax) = facts->meta_bytes_max;
  *count_at(control, CONTROL_slotBytes) = facts->slot_bytes;
  *count_at(control, CONTROL_slotStride) = facts->slot_stride;
  *count32_at(control, CONTROL_headersAt) = CONTROL_headers;
  *count32_at(control, CONTROL_headerStride) = header_stride_of(facts->meta_bytes_max);
  *count32_at(control, CONTROL_whenFull) = WHEN_FULL_WAIT;
  *count_at(control, CONTROL_firstPosition) = facts->first_position;
  *count_at(control, CONTROL_published) = facts->first_position;
  *count_at(control, CONTROL_limit) = facts->first_position;
  *count32_at(control, CONTROL_state) = WRITER_OPEN;
  munmap(control, bytes);
  return fd;
}

static inline int create_page(int64_t lease) {
  int64_t bytes;
  int fd = create_file("page", PAGE_BYTES);
  uint8_t *page = map_file(fd, PROT_READ | PROT_WRITE, &bytes);
  *count_at(page, PAGE_done) = POISON;
  *count_at(page, PAGE_lease) = lease;
  munmap(page, bytes);
  return fd;
}

/* One reader and no meta. The slots are aligned as a hub requires. */
static inline struct channel_facts small_channel(uint32_t slots, int64_t slot_bytes) {
  int64_t slot_stride = (slot_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
  return (struct channel_facts){.slots = slots, .readers_max = 1, .slot_bytes = slot_bytes, .slot_stride = slot_stride};
}

static inline struct ring_fds create_ring(struct channel_facts facts) {
  struct ring_fds fds = {
      .data = create_file("data", facts.slots * facts.slot_stride),
      .control = create_control(&facts),
      .room_bell = create_bell(),
      .seats = facts.readers_max,
  };
  for (uint32_t seat = 0; seat < facts.readers_max; seat++) {
    fds.pages[seat] = create_page(seat + 1);
    fds.bells[seat] = create_bell();
  }
  return fds;
}

/* The descriptors that the reader of a seat gets. */
static inline struct ring_fds reader_fds(const struct ring_fds *all, uint32_t seat) {
  struct ring_fds fds = {.data = all->data, .control = all->control, .room_bell = all->room_bell, .seats = 1};
  fds.pages[0] = all->pages[seat];
  fds.bells[0] = all->bells[seat];
  return fds;
}

#endif
