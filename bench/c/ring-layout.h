/*
 * The memory layout of a channel. A test compares it with src/ring/channel-layout.ts, which has a
 * drawing.
 */
#ifndef BENCH_RING_LAYOUT_H
#define BENCH_RING_LAYOUT_H

#include <stdint.h>

#define MAGIC_0 0x43504943u
#define MAGIC_1 0x4e414843u
#define CHANNEL_VERSION 1
#define LINE_BYTES 64
#define PAGE_BYTES 4096
#define READY_LINES 64
#define CLAIMS 8
#define RANK_MAX 8
/* The most readers that a channel can have. */
#define SEATS_MAX 64

/* Byte offsets. */
#define CONTROL_LAYOUT(at) \
  at(magic, 0) at(version, 8) at(slots, 12) at(readersMax, 16) at(metaBytesMax, 20) at(slotBytes, 24) at(slotStride, 32) \
  at(headersAt, 40) at(headerStride, 44) at(whenFull, 48) at(whenWriterGone, 52) at(firstPosition, 56) at(published, 128) \
  at(limit, 192) at(dropped, 200) at(sequence, 208) at(state, 256) at(epoch, 260) at(asleep, 264) at(expelled, 320) at(ready, 1024)
#define HEADER_LAYOUT(at) \
  at(generation, 0) at(sequence, 8) at(timestampMs, 16) at(byteLength, 24) at(readyAt, 32) at(epoch, 40) at(flags, 44) \
  at(metaBytes, 48) at(rank, 52) at(passedOver, 56) at(shape, 64) at(meta, 128)
#define PAGE_LAYOUT(at) \
  at(lease, 0) at(state, 8) at(mode, 12) at(asleep, 16) at(released, 64) at(gpuReleased, 72) at(claims, 128) at(done, 192) \
  at(received, 256) at(missed, 264)

#define CONTROL_OFFSET(name, offset) CONTROL_##name = offset,
#define HEADER_OFFSET(name, offset) HEADER_##name = offset,
#define PAGE_OFFSET(name, offset) PAGE_##name = offset,
enum { CONTROL_LAYOUT(CONTROL_OFFSET) CONTROL_headers = CONTROL_ready + READY_LINES * LINE_BYTES };
enum { HEADER_LAYOUT(HEADER_OFFSET) HEADER_end };
enum { PAGE_LAYOUT(PAGE_OFFSET) PAGE_end };

enum { WRITER_NONE, WRITER_OPEN, WRITER_CLOSED, WRITER_GONE, WRITER_AWAITED };
enum { READER_NONE, READER_ATTACHED, READER_LEFT };
enum { READER_WAITED_FOR, READER_LOSSY };
enum { WHEN_FULL_WAIT, WHEN_FULL_DROP_OLDEST, WHEN_FULL_DROP_NEWEST, WHEN_FULL_ERROR };

struct channel_facts { uint32_t slots, readers_max, meta_bytes_max; int64_t slot_bytes, slot_stride, first_position; };

static inline uint32_t header_stride_of(uint32_t meta_bytes_max) {
  return HEADER_meta + (meta_bytes_max + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}
static inline uint64_t control_bytes_of(uint32_t slots, uint32_t meta_bytes_max) {
  return CONTROL_headers + (uint64_t)slots * header_stride_of(meta_bytes_max);
}
static inline uint32_t window_of(uint32_t slots) { return slots / 4 > 1 ? slots / 4 : 1; }

#endif
