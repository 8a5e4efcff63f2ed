/* What the parts of peer.c share. */
#ifndef PEER_H
#define PEER_H
#define _GNU_SOURCE
#include "cuda_ipc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_MS 60000

extern cuda_ipc_error error;

#define CHECK(done) do { if (!(done)) cuda_ipc_die(&error); } while (0)

/* A command of the peer. `usage` has its arguments. */
struct command {
  const char *name;
  int arguments; /* at least so many */
  void (*run)(cuda_ipc_hub *hub, int count, char **arguments);
};

extern const struct command array_commands[], bundle_commands[], reader_commands[],
    writer_commands[];

/* peer-bad-faith.c: everything that the client does, against a hub that may be hostile. */
int try_everything(const char *socket_path, int rounds);

/* peer-vectors.c: a call for each hostile vector. */
void play_vectors(const char *socket_path, int count, char **calls);

/* Waits for a line of input. */
void hear(void);
void say_hex(const void *bytes, size_t count);
void say_shape(const int64_t *shape, int rank);
void end_line(void);
/* Prints a JSON string on a line of its own. */
void say(const char *text);
/* Prints the code and the message of `error`, or "OK" and "". */
void say_result(bool ok);
/* Bytes from hexadecimal digits. The caller frees them. */
unsigned char *from_hex(const char *digits, size_t *length);
/* The bytes of all elements in row-major order, through the strides. The caller frees them. */
unsigned char *gather(const cuda_ipc_array *array);
void say_array(const cuda_ipc_array *array);

#endif
