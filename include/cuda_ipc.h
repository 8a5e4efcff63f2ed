/*
 * A client of the cuda-ipc hub in C11: shared arrays, bundles, timelines and channels, by name.
 *
 * Compile examples/c/cuda_ipc.c with your program. It needs Linux, GCC or Clang, and libc. For
 * memory on a GPU it opens libcuda.so.1 when the first such array comes.
 *
 *   cuda_ipc_error error;
 *   cuda_ipc_hub *hub = cuda_ipc_connect(NULL, "reader", CUDA_IPC_TIMEOUT_MS, &error);
 *   if (hub == NULL) cuda_ipc_die(&error);
 *   cuda_ipc_array *frame = cuda_ipc_open(hub, "frame", CUDA_IPC_READ, 10000, &error);
 *   if (frame == NULL) cuda_ipc_die(&error);
 *   const float *values = frame->data;   // elements of host memory, without a copy
 *   cuda_ipc_array_close(frame);
 *   cuda_ipc_disconnect(hub);
 *
 * Results: a call that returns a pointer returns NULL if it fails; other calls return -1. `error`
 * then has a code of docs/reference.md and a sentence. It may be NULL.
 *
 * Time limits are in milliseconds. 0 does not wait, CUDA_IPC_FOREVER waits without a limit.
 *
 * Threads: use a hub, and everything that came from it, from one thread at a time. Threads may have
 * a hub each. Close everything that came from a hub before `cuda_ipc_disconnect`.
 *
 * It does not start a hub, and it does not come back if the hub ends: calls then fail with
 * HUB_GONE, and mappings stay usable. It does not open memory of pools.
 */
#ifndef CUDA_IPC_H
#define CUDA_IPC_H
#include "cuda_ipc_protocol.h"
#include <stdbool.h>

#define CUDA_IPC_FOREVER (-1)

typedef struct cuda_ipc_error {
  char code[32];
  char message[1600];
} cuda_ipc_error;

/* Prints `error[CODE]: message` and exits with 1. */
_Noreturn void cuda_ipc_die(const cuda_ipc_error *error);

/* ---- the hub ---- */

typedef struct cuda_ipc_hub cuda_ipc_hub;

#define CUDA_IPC_TIMEOUT_MS 30000

/* Connects to the hub of this user. `socket_path` is NULL for the usual one (CUDA_IPC_SOCKET, ...).
 * `program` names this process to others. `timeout_ms` limits how long the hub may take to answer,
 * now and in later calls: CUDA_IPC_TIMEOUT_MS, if you have no other wish. HUB_UNAVAILABLE if none
 * runs: start one with `cuda-ipc hub serve`. */
cuda_ipc_hub *cuda_ipc_connect(const char *socket_path, const char *program, int64_t timeout_ms,
                               cuda_ipc_error *error);

/* Says goodbye and frees the hub. */
void cuda_ipc_disconnect(cuda_ipc_hub *hub);

/* ---- arrays ---- */

typedef enum { CUDA_IPC_READ, CUDA_IPC_READ_WRITE } cuda_ipc_access;

typedef struct cuda_ipc_layout {
  char dtype[16];
  int rank;
  int64_t shape[CUDA_IPC_DIMENSIONS_MAX];
  int64_t strides[CUDA_IPC_DIMENSIONS_MAX]; /* in elements; may be 0 or negative */
} cuda_ipc_layout;

typedef struct cuda_ipc_array {
  cuda_ipc_layout layout;
  int64_t element_count;
  int64_t item_bytes;
  bool contiguous; /* row-major without gaps */
  bool read_only;
  void *data;           /* the element whose indices are all 0; NULL if it is on a GPU */
  uint64_t device_data; /* the same as a CUdeviceptr; 0 if it is in host memory */
  struct cuda_ipc_lease *lease;
} cuda_ipc_array;

/* From what a new object takes its name over when it is published. That object then stays for its
 * holders. */
enum {
  CUDA_IPC_REPLACE_NONE,      /* NAME_TAKEN if the name is in use */
  CUDA_IPC_REPLACE_SAME_KIND, /* an object of the same kind */
  CUDA_IPC_REPLACE_ANY,
};

typedef struct cuda_ipc_create_options {
  const char *dtype; /* "float32", ...: CUDA_IPC_DTYPES */
  int rank;
  const int64_t *shape;
  const char *device; /* NULL or "host"; "cuda:N" */
  bool pinned;        /* stays until it is removed, also without a holder */
  int replace;        /* CUDA_IPC_REPLACE_... */
  bool preallocate;   /* take all host memory now, or OUT_OF_MEMORY */
} cuda_ipc_create_options;

/* Makes a row-major array. Nobody can open it before `cuda_ipc_publish`. */
cuda_ipc_array *cuda_ipc_create(cuda_ipc_hub *hub, const char *name,
                                const cuda_ipc_create_options *options, cuda_ipc_error *error);

/* Lets others open it. They see what was written before. On a GPU, wait for your work first.
 *
 * If an array that replaces another one gets a TIMEOUT, the name has the older array or this one.
 * Publish it again to learn which. If you close it instead, the hub connection keeps it, until you
 * publish another object of this name, remove the name or disconnect. Bundles and channels do the
 * same. */
int cuda_ipc_publish(cuda_ipc_array *array, cuda_ipc_error *error);

/* Opens an array, and waits until somebody publishes it. */
cuda_ipc_array *cuda_ipc_open(cuda_ipc_hub *hub, const char *name, cuda_ipc_access access,
                              int64_t timeout_ms, cuda_ipc_error *error);

/* Copies all elements of a contiguous array, from host memory or from a GPU. `bytes` is
 * element_count * item_bytes. */
int cuda_ipc_copy_from(const cuda_ipc_array *array, void *to, size_t bytes, cuda_ipc_error *error);
int cuda_ipc_copy_to(cuda_ipc_array *array, const void *from, size_t bytes, cuda_ipc_error *error);

/* Unmaps it and gives the lease back. */
void cuda_ipc_array_close(cuda_ipc_array *array);

/* Takes the name away. Holders keep the memory. */
int cuda_ipc_remove(cuda_ipc_hub *hub, const char *name, cuda_ipc_error *error);

/* ---- bundles: many arrays by name, in one piece of memory ---- */

typedef struct cuda_ipc_bundle_array {
  const char *name; /* UTF-8, with a NUL behind it; one of another process may also hold NULs */
  size_t name_bytes;
  cuda_ipc_array array; /* it is closed with its bundle: do not close it alone */
} cuda_ipc_bundle_array;

typedef struct cuda_ipc_pair {
  const char *key, *value;
} cuda_ipc_pair;

typedef struct cuda_ipc_bundle {
  int64_t object; /* the hub's number: a later bundle of this name has another one */
  size_t count;
  cuda_ipc_bundle_array *arrays; /* in the order of their maker */
  size_t metadata_count;
  cuda_ipc_pair *metadata;
  cuda_ipc_bundle_array **sorted; /* the arrays by name, for cuda_ipc_bundle_find */
  char *texts;
  struct cuda_ipc_lease *lease;
} cuda_ipc_bundle;

typedef struct cuda_ipc_bundle_part {
  const char *name; /* UTF-8 */
  const char *dtype;
  int rank;
  const int64_t *shape;
} cuda_ipc_bundle_part;

typedef struct cuda_ipc_bundle_options {
  const cuda_ipc_bundle_part *parts;
  size_t count;
  const cuda_ipc_pair *metadata; /* texts for people, in UTF-8; may be NULL */
  size_t metadata_count;
  const char *device; /* NULL or "host"; "cuda:N" */
  bool pinned;        /* stays until it is removed, also without a holder */
  int replace;        /* CUDA_IPC_REPLACE_... */
  bool preallocate;   /* take all host memory now, or OUT_OF_MEMORY */
} cuda_ipc_bundle_options;

/* Makes row-major arrays. Write each by cuda_ipc_copy_to or `data`, and then publish them all. */
cuda_ipc_bundle *cuda_ipc_bundle_create(cuda_ipc_hub *hub, const char *name,
                                        const cuda_ipc_bundle_options *options,
                                        cuda_ipc_error *error);
int cuda_ipc_bundle_publish(cuda_ipc_bundle *bundle, cuda_ipc_error *error);

/* Opens all arrays of a bundle, and waits until somebody publishes it. The arrays stay together:
 * if another bundle replaces this one under its name, this one does not change. */
cuda_ipc_bundle *cuda_ipc_bundle_open(cuda_ipc_hub *hub, const char *name, cuda_ipc_access access,
                                      int64_t timeout_ms, cuda_ipc_error *error);

/* The array of this name, or NULL. */
cuda_ipc_array *cuda_ipc_bundle_find(const cuda_ipc_bundle *bundle, const char *name);

/* Unmaps all arrays and gives the lease back. */
void cuda_ipc_bundle_close(cuda_ipc_bundle *bundle);

/* ---- lists ---- */

typedef struct cuda_ipc_entry {
  char name[CUDA_IPC_NAME_BYTES_MAX + 1];
  char kind[16]; /* "array", "bundle", "timeline", "channel" */
  char device[64]; /* "host", or a GPU's UUID */
  int64_t byte_length;
  int64_t owner_pid; /* 0 if its owner has given it back */
  int64_t leases;
  bool published;
} cuda_ipc_entry;

/* Calls `each` for everything that you may open, in the order of names, until it returns false. */
int cuda_ipc_list(cuda_ipc_hub *hub, bool (*each)(void *context, const cuda_ipc_entry *entry),
                  void *context, cuda_ipc_error *error);

/* ---- timelines: numbers that only grow ---- */

typedef struct cuda_ipc_timeline cuda_ipc_timeline;

/* Makes a timeline at 0 and publishes it. */
cuda_ipc_timeline *cuda_ipc_timeline_create(cuda_ipc_hub *hub, const char *name,
                                            cuda_ipc_error *error);
/* The same, but when its owner has closed it or is gone, it waits for the next owner. It stays until
 * somebody removes it. */
cuda_ipc_timeline *cuda_ipc_timeline_create_resumable(cuda_ipc_hub *hub, const char *name,
                                                      cuda_ipc_error *error);
cuda_ipc_timeline *cuda_ipc_timeline_open(cuda_ipc_hub *hub, const char *name, int64_t timeout_ms,
                                          cuda_ipc_error *error);
/* Becomes the next owner of such a timeline, which continues at its value. IN_USE if it has an
 * owner, READ_ONLY if it was not made for several. */
cuda_ipc_timeline *cuda_ipc_timeline_resume(cuda_ipc_hub *hub, const char *name,
                                            int64_t timeout_ms, cuda_ipc_error *error);
/* The value reached. -1 if nobody signals it any more: it ended, or waits for its next owner. */
int64_t cuda_ipc_timeline_value(const cuda_ipc_timeline *timeline);
/* The value reached, even if nobody signals it any more. */
int64_t cuda_ipc_timeline_last_value(const cuda_ipc_timeline *timeline);
/* Only its maker signals, and only larger numbers. */
int cuda_ipc_timeline_signal(cuda_ipc_timeline *timeline, int64_t value, cuda_ipc_error *error);
/* Waits until the value is reached. PEER_GONE if the timeline ended before. */
int cuda_ipc_timeline_wait(cuda_ipc_timeline *timeline, int64_t value, int64_t timeout_ms,
                           cuda_ipc_error *error);
void cuda_ipc_timeline_close(cuda_ipc_timeline *timeline);

/* ---- channels: messages from one writer to several readers, without a copy ---- */

typedef struct cuda_ipc_writer cuda_ipc_writer;
typedef struct cuda_ipc_reader cuda_ipc_reader;

typedef struct cuda_ipc_channel_options {
  const char *dtype;
  int rank; /* at most 8 */
  const int64_t *shape; /* of one message at most */
  uint32_t slots;
  uint32_t readers_max;
  uint32_t meta_bytes_max;
  uint32_t when_full;        /* CUDA_IPC_WHEN_FULL_... */
  uint32_t when_writer_gone; /* CUDA_IPC_WHEN_WRITER_GONE_... */
  const char *device;        /* of the slots: NULL or "host"; "cuda:N" */
  int replace;               /* CUDA_IPC_REPLACE_... */
  bool preallocate;          /* take all host memory now, or OUT_OF_MEMORY */
} cuda_ipc_channel_options;

typedef struct cuda_ipc_slot {
  void *data;           /* NULL if the slots are on a GPU */
  uint64_t device_data; /* 0 if they are in host memory */
  int64_t bytes_max;
} cuda_ipc_slot;

cuda_ipc_writer *cuda_ipc_writer_create(cuda_ipc_hub *hub, const char *name,
                                        const cuda_ipc_channel_options *options,
                                        cuda_ipc_error *error);
/* Becomes the next writer of a channel whose writer has gone (CUDA_IPC_WHEN_WRITER_GONE_WAIT), and
 * goes on with its sequence. `timeout_ms` is how long to wait for the name. IN_USE if the channel
 * has a writer. */
cuda_ipc_writer *cuda_ipc_writer_resume(cuda_ipc_hub *hub, const char *name, int64_t timeout_ms,
                                        cuda_ipc_error *error);
/* The layout of a whole message. */
const cuda_ipc_layout *cuda_ipc_writer_layout(const cuda_ipc_writer *writer);
/* The number of the next message. */
int64_t cuda_ipc_writer_sequence(const cuda_ipc_writer *writer);
/* Readers that are attached now. */
int cuda_ipc_writer_readers(cuda_ipc_writer *writer);
/* Lends the next slot. If none is free: waits, drops or fails (CHANNEL_FULL), as `when_full`
 * says. */
int cuda_ipc_writer_loan(cuda_ipc_writer *writer, cuda_ipc_slot *slot, int64_t timeout_ms,
                         cuda_ipc_error *error);
/* Sends what lies in the loaned slot. On a GPU, wait for your work first. `flags` is 0 or
 * CUDA_IPC_FLAG_JSON for a meta that is JSON. */
int cuda_ipc_writer_commit(cuda_ipc_writer *writer, int64_t byte_length, const void *meta,
                           uint32_t meta_bytes, uint32_t flags, cuda_ipc_error *error);
/* Copies into the loaned slot, also if it is on a GPU. */
int cuda_ipc_writer_copy(cuda_ipc_writer *writer, const cuda_ipc_slot *slot, const void *from,
                         size_t bytes, cuda_ipc_error *error);
/* Ends the channel: readers get what was sent, and then its end. With WHEN_WRITER_GONE_WAIT the
 * channel waits for its next writer instead. */
void cuda_ipc_writer_close(cuda_ipc_writer *writer);
/* Ends the channel in either case. */
void cuda_ipc_writer_end(cuda_ipc_writer *writer);

typedef struct cuda_ipc_reader_options {
  bool lossy;         /* the writer does not wait for this reader */
  const char *from;   /* NULL or "next"; "oldest"; "latest" */
  int64_t timeout_ms; /* how long to wait for the channel's name */
} cuda_ipc_reader_options;

typedef struct cuda_ipc_message {
  const void *data;     /* NULL if the slots are on a GPU */
  uint64_t device_data; /* 0 if they are in host memory */
  int64_t byte_length;
  int64_t sequence;
  int64_t missed; /* messages lost since the one before */
  double timestamp_ms;
  const void *meta;
  uint32_t meta_bytes;
  bool meta_is_json;
  int rank; /* 0: the channel's shape, or one row of elements if it is shorter */
  int64_t shape[8];
  int64_t position; /* names the slot to cuda_ipc_reader_release */
} cuda_ipc_message;

cuda_ipc_reader *cuda_ipc_reader_open(cuda_ipc_hub *hub, const char *name,
                                      const cuda_ipc_reader_options *options,
                                      cuda_ipc_error *error);
/* The layout of a whole message, as the writer declared it. */
const cuda_ipc_layout *cuda_ipc_reader_layout(const cuda_ipc_reader *reader);
/* Takes the next message. Returns 1, or 0 if the channel has ended, or -1. A message stays valid
 * until it is released. A lossy reader holds 8 messages at most, any other as many as there are
 * slots. Release each one: nobody else does. If this process holds all slots, no message can come,
 * and the error says so. A message without data (byte_length 0) holds no slot, and need not be
 * released. Its meta stays valid until the next call. */
int cuda_ipc_reader_next(cuda_ipc_reader *reader, cuda_ipc_message *message, int64_t timeout_ms,
                         cuda_ipc_error *error);
/* Copies the first bytes of a message, also from a GPU. */
int cuda_ipc_reader_copy(const cuda_ipc_reader *reader, const cuda_ipc_message *message, void *to,
                         size_t bytes, cuda_ipc_error *error);
/* All messages that it lost; once the channel has ended, with those after the last message. */
int64_t cuda_ipc_reader_missed(const cuda_ipc_reader *reader);
void cuda_ipc_reader_release(cuda_ipc_reader *reader, const cuda_ipc_message *message);
void cuda_ipc_reader_close(cuda_ipc_reader *reader);

#endif
