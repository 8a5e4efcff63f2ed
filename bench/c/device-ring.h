/*
 * A ring of slots in GPU memory between two processes, ordered by their streams. The writer's
 * stream fills a slot and signals. The reader's stream waits for that, uses the slot and signals
 * back. The writer's stream waits for that before it fills the slot again. The CPUs enqueue at most
 * WINDOW messages ahead. A sample is the mean of CHUNK messages. With -DHOST, the CPUs do all the
 * work.
 */
#ifndef BENCH_DEVICE_RING_H
#define BENCH_DEVICE_RING_H

#include "words.h"

#define SLOTS 64
#define SLOT_BYTES 65536
#define WINDOW 64
#define CHUNK 256

#ifdef HOST
typedef uint8_t *device_bytes;
static device_bytes shared_slots;
#else
typedef CUdeviceptr device_bytes;
#endif

/*
 * The hooks of a program: before the first message, the stream's work for message i (from 1), and
 * after the last one.
 */
struct side {
  void (*prepare)(int ordinal);
  void (*work)(lane stream, device_bytes slot, long i);
  void (*finish)(long total);
};

static const char *ring_name;
static struct side writer_side, reader_side;
static struct words_file ring_files[2];

#ifdef HOST
static inline device_bytes allocate_bytes(size_t count) {
  uint8_t *bytes = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED) fail("mmap: %s", strerror(errno));
  return bytes;
}
static inline device_bytes export_slots(int socket) { (void)socket; return shared_slots; }
static inline device_bytes import_slots(int socket) { (void)socket; return shared_slots; }
static inline void upload(device_bytes to, const void *from, size_t count) { memcpy(to, from, count); }
static inline void download(void *to, device_bytes from, size_t count) { memcpy(to, from, count); }
#else
static inline device_bytes allocate_bytes(size_t count) {
  CUdeviceptr pointer;
  CHECK(cuMemAlloc(&pointer, count));
  return pointer;
}
static inline device_bytes export_slots(int socket) {
  /*
   * At least 2 MiB: smaller allocations share a driver block, and the handle is for the whole
   * block.
   */
  device_bytes slots = allocate_bytes(SLOTS * SLOT_BYTES);
  CUipcMemHandle handle;
  CHECK(cuIpcGetMemHandle(&handle, slots));
  send_message(socket, &handle, sizeof handle);
  return slots;
}
static inline device_bytes import_slots(int socket) {
  device_bytes slots;
  CUipcMemHandle handle;
  receive_message(socket, &handle, sizeof handle);
  CHECK(cuIpcOpenMemHandle(&slots, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  return slots;
}
/* On a new stream, because the default stream would wait for all other streams. */
static inline void upload(device_bytes to, const void *from, size_t count) {
  CUstream stream = create_stream();
  CHECK(cuMemcpyHtoDAsync(to, from, count, stream));
  finish(stream);
}
static inline void download(void *to, device_bytes from, size_t count) {
  CUstream stream = create_stream();
  CHECK(cuMemcpyDtoHAsync(to, from, count, stream));
  finish(stream);
}
#endif

static inline device_bytes slot_of(device_bytes slots, long i) { return slots + (i - 1) % SLOTS * SLOT_BYTES; }

static void ring_writer(struct arguments arguments, int socket) {
  struct samples samples = {0};
  long total = arguments.warm_up + arguments.iterations;
  char here = 0;
  double start = 0;
  open_device(arguments.ordinal);
  device_bytes slots = export_slots(socket);
  struct word ready = own_word(ring_files[0]), done = peer_word(ring_files[1]);
  lane stream = create_stream();
  writer_side.prepare(arguments.ordinal);
  receive_message(socket, &here, 1);
  for (long i = 1; i <= total; i++) {
    if (i > WINDOW) spin_until(&done, i - WINDOW);
    if (i % CHUNK == 0) {
      double now = now_us();
      if (start != 0) add_sample(&samples, (now - start) / CHUNK);
      start = i > arguments.warm_up ? now : 0;
    }
    if (i > SLOTS) wait_on(stream, &done, i - SLOTS);
    writer_side.work(stream, slot_of(slots, i), i);
    write_on(stream, &ready, i);
  }
  spin_until(&done, total);
  finish(stream);
  writer_side.finish(total);
  /* This process owns the memory, so it stays until the reader has checked its data. */
  send_message(socket, &here, 1);
  receive_message(socket, &here, 1);
  report(ring_name, arguments.iterations, &samples);
}

static void ring_reader(struct arguments arguments, int socket) {
  long total = arguments.warm_up + arguments.iterations;
  char here = 1;
  open_device(arguments.ordinal);
  device_bytes slots = import_slots(socket);
  struct word done = own_word(ring_files[1]), ready = peer_word(ring_files[0]);
  lane stream = create_stream();
  reader_side.prepare(arguments.ordinal);
  send_message(socket, &here, 1);
  for (long i = 1; i <= total; i++) {
    if (i > WINDOW) spin_until(&done, i - WINDOW);
    wait_on(stream, &ready, i);
    reader_side.work(stream, slot_of(slots, i), i);
    write_on(stream, &done, i);
  }
  spin_until(&done, total);
  finish(stream);
  reader_side.finish(total);
  receive_message(socket, &here, 1);
  send_message(socket, &here, 1);
}

static inline int run_device_ring(const char *name, struct side writer, struct side reader, int argc, char **argv) {
  ring_name = name;
  writer_side = writer;
  reader_side = reader;
  for (int i = 0; i < 2; i++) ring_files[i] = create_words();
#ifdef HOST
  shared_slots = allocate_bytes(SLOTS * SLOT_BYTES);
#else
  /*
   * Set before the driver starts. A kernel that loads at its first launch could wait for streams
   * that wait for it.
   */
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
#endif
  return run_pair(ring_writer, ring_reader, parse_arguments(argc, argv));
}

#endif
