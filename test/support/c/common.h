/* What the C programs of the tests share: failures, lines to and from the test, and whole files. */
#ifndef TEST_COMMON_H
#define TEST_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDLE_BYTES 64

__attribute__((noreturn, format(printf, 1, 2))) static inline void fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fprintf(stderr, " (errno %d)\n", errno);
  exit(1);
}

__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...) {
  va_list values;
  va_start(values, format);
  vprintf(format, values);
  va_end(values);
  putchar('\n');
  fflush(stdout);
}

/* Waits until the test says go on. Ends with the test. */
static inline void await_line(void) {
  char line[64];
  if (fgets(line, sizeof line, stdin) == NULL) exit(0);
}

/* Writes the file as CUDA's samples do: in place, without a rename. The pause is after so many bytes. */
static inline void write_handle(const char *path, const void *handle, size_t pause_after) {
  const char *bytes = handle;
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) fail("open %s", path);
  if (write(fd, bytes, pause_after) != (ssize_t)pause_after) fail("write %s", path);
  if (pause_after < HANDLE_BYTES) {
    say("half");
    await_line();
    if (write(fd, bytes + pause_after, HANDLE_BYTES - pause_after) < 0) fail("write %s", path);
  }
  close(fd);
}

static inline void read_handle(const char *path, void *handle) {
  FILE *file = fopen(path, "rb");
  struct stat stats;
  if (file == NULL) fail("open %s", path);
  if (fstat(fileno(file), &stats) < 0 || stats.st_size != HANDLE_BYTES) fail("%s has %ld bytes", path, (long)stats.st_size);
  if (fread(handle, 1, HANDLE_BYTES, file) != HANDLE_BYTES) fail("read %s", path);
  fclose(file);
}

#endif
