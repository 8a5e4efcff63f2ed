/*
 * Copies through a ring in GPU memory: 64 KiB from the writer's own memory into the slot, and from
 * the slot into the reader's memory. The same loop: bench/actors/channel-copies.ts
 */
#include "device-ring.h"

static device_bytes own;
static uint32_t pattern[SLOT_BYTES / 4];

static void copy_on(lane stream, device_bytes to, device_bytes from) {
#ifdef HOST
  (void)stream;
  memcpy(to, from, SLOT_BYTES);
#else
  CHECK(cuMemcpyDtoDAsync(to, from, SLOT_BYTES, stream));
#endif
}

static void prepare_writer(int ordinal) {
  (void)ordinal;
  for (uint32_t i = 0; i < SLOT_BYTES / 4; i++) pattern[i] = i * 2654435761u;
  own = allocate_bytes(SLOT_BYTES);
  upload(own, pattern, SLOT_BYTES);
}
static void fill_slot(lane stream, device_bytes slot, long i) {
  (void)i;
  copy_on(stream, slot, own);
}
static void finish_writer(long total) { (void)total; }

static void prepare_reader(int ordinal) {
  (void)ordinal;
  own = allocate_bytes(SLOT_BYTES);
}
static void empty_slot(lane stream, device_bytes slot, long i) {
  (void)i;
  copy_on(stream, own, slot);
}
static void finish_reader(long total) {
  (void)total;
  download(pattern, own, SLOT_BYTES);
  for (uint32_t i = 0; i < SLOT_BYTES / 4; i++) {
    if (pattern[i] != i * 2654435761u) fail("word %u of the last message is %u", i, pattern[i]);
  }
}

int main(int argc, char **argv) {
  struct side writer = {prepare_writer, fill_slot, finish_writer}, reader = {prepare_reader, empty_slot, finish_reader};
  return run_device_ring("channel-copies", writer, reader, argc, argv);
}
