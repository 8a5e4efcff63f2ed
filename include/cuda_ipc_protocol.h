/* The memory of timelines and channels as docs/protocol.md describes it. Generated.
 * Little-endian machines alone. Load and store the words of the handshake by
 * __atomic_load_n and __atomic_store_n with __ATOMIC_SEQ_CST. */
#ifndef CUDA_IPC_PROTOCOL_H
#define CUDA_IPC_PROTOCOL_H
#include <stddef.h>
#include <stdint.h>

#define CUDA_IPC_PROTOCOL_VERSION 1
#define CUDA_IPC_CHANNEL_VERSION 1
#define CUDA_IPC_MESSAGE_BYTES_MAX 65536
#define CUDA_IPC_JSON_LEVELS_MAX 32
#define CUDA_IPC_SOCKET_PATH_BYTES_MAX 107
#define CUDA_IPC_NAME_BYTES_MAX 255
#define CUDA_IPC_DIMENSIONS_MAX 32
#define CUDA_IPC_SLOTS_MAX 65536
#define CUDA_IPC_READERS_MAX 64
#define CUDA_IPC_LOOKS_MAX 256
#define CUDA_IPC_META_BYTES_MAX 65536
#define CUDA_IPC_BUNDLE_ARRAYS_MAX 1000000
#define CUDA_IPC_INDEX_BYTES_MAX 67108864
#define CUDA_IPC_TIMELINE_BYTES_MAX 1048576
#define CUDA_IPC_CONTROL_BYTES_MAX 268435456
#define CUDA_IPC_FDS_MAX 253
#define CUDA_IPC_POISON INT64_MAX
#define CUDA_IPC_LINE_BYTES 64
#define CUDA_IPC_PAGE_BYTES 4096
#define CUDA_IPC_HEADERS_AT 5120
#define CUDA_IPC_READY_LINES 64
#define CUDA_IPC_CLAIMS 8
#define CUDA_IPC_POSITIONS_MAX 9007190664806399
#define CUDA_IPC_WRITER_NONE 0
#define CUDA_IPC_WRITER_OPEN 1
#define CUDA_IPC_WRITER_CLOSED 2
#define CUDA_IPC_WRITER_GONE 3
#define CUDA_IPC_WRITER_AWAITED 4
#define CUDA_IPC_READER_NONE 0
#define CUDA_IPC_READER_ATTACHED 1
#define CUDA_IPC_READER_LEFT 2
#define CUDA_IPC_MODE_WAITED_FOR 0
#define CUDA_IPC_MODE_LOSSY 1
#define CUDA_IPC_FLAG_JSON 1
#define CUDA_IPC_FLAG_SHAPED 2
#define CUDA_IPC_FLAG_LOST 4
#define CUDA_IPC_WHEN_FULL_WAIT 0
#define CUDA_IPC_WHEN_FULL_DROP_OLDEST 1
#define CUDA_IPC_WHEN_FULL_DROP_NEWEST 2
#define CUDA_IPC_WHEN_FULL_ERROR 3
#define CUDA_IPC_WHEN_WRITER_GONE_END 0
#define CUDA_IPC_WHEN_WRITER_GONE_WAIT 1
#define CUDA_IPC_ENVELOPE_BYTES 24
#define CUDA_IPC_KIND_HELLO 1
#define CUDA_IPC_KIND_REQUEST 2
#define CUDA_IPC_KIND_CANCEL 3
#define CUDA_IPC_KIND_REPLY 4
#define CUDA_IPC_KIND_FAILED 5
#define CUDA_IPC_KIND_REFUSED 6
#define CUDA_IPC_KIND_DROPPED 7
#define CUDA_IPC_KIND_ABANDONED 8

/* Of errors: docs/reference.md. */
#define CUDA_IPC_ERROR_CODES \
  "CLOSED", \
  "ABORTED", \
  "TIMEOUT", \
  "READ_ONLY", \
  "INVALID_NAME", \
  "NAME_TAKEN", \
  "NOT_FOUND", \
  "WRONG_KIND", \
  "NOT_OWNER", \
  "PEER_GONE", \
  "CHANNEL_FULL", \
  "READERS_FULL", \
  "CHANNEL_CORRUPT", \
  "READER_EXPELLED", \
  "REQUEST_FAILED", \
  "HUB_UNAVAILABLE", \
  "HUB_GONE", \
  "DISCONNECTED", \
  "HUB_RUNNING", \
  "HUB_IN_USE", \
  "NO_KEEPER", \
  "PROTOCOL_MISMATCH", \
  "INVALID_MESSAGE", \
  "MESSAGE_TOO_LARGE", \
  "INVALID_DESCRIPTOR", \
  "LIMIT_EXCEEDED", \
  "UNTRUSTED_PEER", \
  "UNSAFE_RUNTIME_DIR", \
  "SOCKET_PATH_TOO_LONG", \
  "BRIDGE_UNAVAILABLE", \
  "BRIDGE_RUNNING", \
  "NATS_UNAVAILABLE", \
  "ENGINE_NOT_FOUND", \
  "INVALID_HANDLE", \
  "OWN_HANDLE", \
  "OTHER_PID_NAMESPACE", \
  "STALE_HANDLE", \
  "IN_USE", \
  "EVENT_NOT_RECORDED", \
  "BARRIER_BROKEN", \
  "NO_RANK", \
  "INVALID_RANK", \
  "PEER_ACCESS_UNSUPPORTED", \
  "INVALID_MODULE", \
  "KERNEL_NOT_FOUND", \
  "KERNEL_ARGUMENTS", \
  "COMPILE_FAILED", \
  "NVRTC_NOT_FOUND", \
  "INVALID_FILE", \
  "FILE_EXISTS", \
  "UNSUPPORTED_DTYPE", \
  "VERIFICATION_FAILED", \
  "INVALID_DEVICE", \
  "DEVICE_NOT_FOUND", \
  "DRIVER_NOT_FOUND", \
  "DRIVER_TOO_OLD", \
  "UNSUPPORTED", \
  "OUT_OF_MEMORY", \
  "DEVICE_LOST", \
  "MPS_UNAVAILABLE", \
  "CUDA_ERROR", \
  "TOO_MANY_FDS", \
  "DISK_FULL", \
  "PERMISSION_DENIED", \
  "SYSTEM_ERROR"

/* Name, bytes of an element, alignment of an offset. */
#define CUDA_IPC_DTYPES(use) \
  use(bool, 1, 1) \
  use(uint8, 1, 1) \
  use(uint16, 2, 2) \
  use(uint32, 4, 4) \
  use(uint64, 8, 8) \
  use(int8, 1, 1) \
  use(int16, 2, 2) \
  use(int32, 4, 4) \
  use(int64, 8, 8) \
  use(float8_e4m3fn, 1, 1) \
  use(float8_e5m2, 1, 1) \
  use(float16, 2, 2) \
  use(bfloat16, 2, 2) \
  use(float32, 4, 4) \
  use(float64, 8, 8) \
  use(complex64, 8, 4) \
  use(complex128, 16, 8)

struct cuda_ipc_line {
  int64_t value;
  int64_t final;
  int64_t awaited;
  uint8_t unused_24[40];
};
_Static_assert(offsetof(struct cuda_ipc_line, value) == 0, "value");
_Static_assert(offsetof(struct cuda_ipc_line, final) == 8, "final");
_Static_assert(offsetof(struct cuda_ipc_line, awaited) == 16, "awaited");
_Static_assert(sizeof(struct cuda_ipc_line) == 64, "cuda_ipc_line");

struct cuda_ipc_control {
  uint32_t magic[2];
  uint32_t version;
  uint32_t slots;
  uint32_t readers_max;
  uint32_t meta_bytes_max;
  uint64_t slot_bytes;
  uint64_t slot_stride;
  uint32_t headers_at;
  uint32_t header_stride;
  uint32_t when_full;
  uint32_t when_writer_gone;
  uint64_t first_position;
  uint8_t unused_64[64];
  uint64_t published;
  uint8_t unused_136[56];
  uint64_t limit;
  uint64_t dropped;
  uint64_t sequence;
  uint8_t unused_216[40];
  uint32_t state;
  uint32_t epoch;
  uint32_t asleep;
  uint8_t unused_268[52];
  uint64_t expelled[64];
  uint8_t unused_832[192];
  int64_t ready[512];
};
_Static_assert(offsetof(struct cuda_ipc_control, magic) == 0, "magic");
_Static_assert(offsetof(struct cuda_ipc_control, version) == 8, "version");
_Static_assert(offsetof(struct cuda_ipc_control, slots) == 12, "slots");
_Static_assert(offsetof(struct cuda_ipc_control, readers_max) == 16, "readersMax");
_Static_assert(offsetof(struct cuda_ipc_control, meta_bytes_max) == 20, "metaBytesMax");
_Static_assert(offsetof(struct cuda_ipc_control, slot_bytes) == 24, "slotBytes");
_Static_assert(offsetof(struct cuda_ipc_control, slot_stride) == 32, "slotStride");
_Static_assert(offsetof(struct cuda_ipc_control, headers_at) == 40, "headersAt");
_Static_assert(offsetof(struct cuda_ipc_control, header_stride) == 44, "headerStride");
_Static_assert(offsetof(struct cuda_ipc_control, when_full) == 48, "whenFull");
_Static_assert(offsetof(struct cuda_ipc_control, when_writer_gone) == 52, "whenWriterGone");
_Static_assert(offsetof(struct cuda_ipc_control, first_position) == 56, "firstPosition");
_Static_assert(offsetof(struct cuda_ipc_control, published) == 128, "published");
_Static_assert(offsetof(struct cuda_ipc_control, limit) == 192, "limit");
_Static_assert(offsetof(struct cuda_ipc_control, dropped) == 200, "dropped");
_Static_assert(offsetof(struct cuda_ipc_control, sequence) == 208, "sequence");
_Static_assert(offsetof(struct cuda_ipc_control, state) == 256, "state");
_Static_assert(offsetof(struct cuda_ipc_control, epoch) == 260, "epoch");
_Static_assert(offsetof(struct cuda_ipc_control, asleep) == 264, "asleep");
_Static_assert(offsetof(struct cuda_ipc_control, expelled) == 320, "expelled");
_Static_assert(offsetof(struct cuda_ipc_control, ready) == 1024, "ready");
_Static_assert(sizeof(struct cuda_ipc_control) == 5120, "cuda_ipc_control");

struct cuda_ipc_header {
  uint64_t generation;
  uint64_t sequence;
  double timestamp_ms;
  uint64_t byte_length;
  uint64_t ready_at;
  uint32_t epoch;
  uint32_t flags;
  uint32_t meta_bytes;
  uint32_t rank;
  uint64_t passed_over;
  uint64_t shape[8];
};
_Static_assert(offsetof(struct cuda_ipc_header, generation) == 0, "generation");
_Static_assert(offsetof(struct cuda_ipc_header, sequence) == 8, "sequence");
_Static_assert(offsetof(struct cuda_ipc_header, timestamp_ms) == 16, "timestampMs");
_Static_assert(offsetof(struct cuda_ipc_header, byte_length) == 24, "byteLength");
_Static_assert(offsetof(struct cuda_ipc_header, ready_at) == 32, "readyAt");
_Static_assert(offsetof(struct cuda_ipc_header, epoch) == 40, "epoch");
_Static_assert(offsetof(struct cuda_ipc_header, flags) == 44, "flags");
_Static_assert(offsetof(struct cuda_ipc_header, meta_bytes) == 48, "metaBytes");
_Static_assert(offsetof(struct cuda_ipc_header, rank) == 52, "rank");
_Static_assert(offsetof(struct cuda_ipc_header, passed_over) == 56, "passedOver");
_Static_assert(offsetof(struct cuda_ipc_header, shape) == 64, "shape");
_Static_assert(sizeof(struct cuda_ipc_header) == 128, "cuda_ipc_header");

struct cuda_ipc_page {
  uint64_t lease;
  uint32_t state;
  uint32_t mode;
  uint32_t asleep;
  uint8_t unused_20[44];
  uint64_t released;
  uint64_t gpu_released;
  uint8_t unused_80[48];
  int64_t claims[8];
  int64_t done[2];
  uint8_t unused_208[48];
  uint64_t received;
  uint64_t missed;
  uint8_t unused_272[3824];
};
_Static_assert(offsetof(struct cuda_ipc_page, lease) == 0, "lease");
_Static_assert(offsetof(struct cuda_ipc_page, state) == 8, "state");
_Static_assert(offsetof(struct cuda_ipc_page, mode) == 12, "mode");
_Static_assert(offsetof(struct cuda_ipc_page, asleep) == 16, "asleep");
_Static_assert(offsetof(struct cuda_ipc_page, released) == 64, "released");
_Static_assert(offsetof(struct cuda_ipc_page, gpu_released) == 72, "gpuReleased");
_Static_assert(offsetof(struct cuda_ipc_page, claims) == 128, "claims");
_Static_assert(offsetof(struct cuda_ipc_page, done) == 192, "done");
_Static_assert(offsetof(struct cuda_ipc_page, received) == 256, "received");
_Static_assert(offsetof(struct cuda_ipc_page, missed) == 264, "missed");
_Static_assert(sizeof(struct cuda_ipc_page) == 4096, "cuda_ipc_page");

#endif
