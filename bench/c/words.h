/*
 * 64-bit words in memory files. Each process writes its own file and reads the other's through a
 * read-only descriptor. Streams write the words and wait for them. With -DHOST there is no GPU, and
 * the CPU does at once what a stream would do in order.
 */
#ifndef BENCH_WORDS_H
#define BENCH_WORDS_H

#include "common.h"
#include <fcntl.h>
#include <sys/mman.h>
#ifndef HOST
#include "cuda-driver.h"
#endif

/* The size of a timeline file. */
#define WORDS_BYTES 65536

struct words_file { int writable_fd, read_only_fd; };

/* Call it before the fork, so that both processes inherit the descriptors. */
static inline struct words_file create_words(void) {
  struct words_file file;
  char path[64];
  file.writable_fd = memfd_create("words", MFD_CLOEXEC);
  if (file.writable_fd < 0 || ftruncate(file.writable_fd, WORDS_BYTES) != 0) fail("memfd: %s", strerror(errno));
  snprintf(path, sizeof path, "/proc/self/fd/%d", file.writable_fd);
  file.read_only_fd = open(path, O_RDONLY | O_CLOEXEC);
  if (file.read_only_fd < 0) fail("open %s: %s", path, strerror(errno));
  return file;
}

#ifdef HOST
typedef int lane;
typedef uint64_t *device_word;
static inline void open_device(int ordinal) { (void)ordinal; }
static inline lane create_stream(void) { return 0; }
static inline void finish(lane stream) { (void)stream; }
#else
typedef CUstream lane;
typedef CUdeviceptr device_word;
#endif

struct word { uint64_t *cpu; device_word device; };

static inline uint64_t load_word(const struct word *word) { return __atomic_load_n(word->cpu, __ATOMIC_SEQ_CST); }
static inline void store_word(struct word *word, uint64_t value) { __atomic_store_n(word->cpu, value, __ATOMIC_SEQ_CST); }

static inline void spin_until(const struct word *word, uint64_t value) {
  struct limit limit = {0};
  while (load_word(word) < value) check_limit(&limit, "a word of the other process");
}

static inline uint64_t *map_words(int fd, int protection) {
  void *words = mmap(NULL, WORDS_BYTES, protection, MAP_SHARED, fd, 0);
  if (words == MAP_FAILED) fail("mmap: %s", strerror(errno));
  return words;
}

#ifdef HOST
static inline struct word own_word(struct words_file file) {
  uint64_t *words = map_words(file.writable_fd, PROT_READ | PROT_WRITE);
  return (struct word){words, words};
}
static inline struct word peer_word(struct words_file file) {
  uint64_t *words = map_words(file.read_only_fd, PROT_READ);
  return (struct word){words, words};
}
static inline void write_on(lane stream, struct word *word, uint64_t value) { (void)stream; store_word(word, value); }
static inline void wait_on(lane stream, const struct word *word, uint64_t value) { (void)stream; spin_until(word, value); }
#else
static inline struct word register_words(uint64_t *words, unsigned int access) {
  struct word word = {words, 0};
  CHECK(cuMemHostRegister(words, WORDS_BYTES, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | access));
  CHECK(cuMemHostGetDevicePointer(&word.device, words, 0));
  return word;
}
static inline struct word own_word(struct words_file file) {
  return register_words(map_words(file.writable_fd, PROT_READ | PROT_WRITE), 0);
}
static inline struct word peer_word(struct words_file file) {
  return register_words(map_words(file.read_only_fd, PROT_READ), CU_MEMHOSTREGISTER_READ_ONLY);
}
static inline void write_on(lane stream, struct word *word, uint64_t value) {
  CHECK(cuStreamWriteValue64(stream, word->device, value, CU_STREAM_WRITE_VALUE_DEFAULT));
}
static inline void wait_on(lane stream, const struct word *word, uint64_t value) {
  CHECK(cuStreamWaitValue64(stream, word->device, value, CU_STREAM_WAIT_VALUE_GEQ));
}
#endif

#endif
