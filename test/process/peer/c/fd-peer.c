/*
 * Exchanges memory by a descriptor with its size (8 bytes, little-endian) on a Unix socket, and waits for an acknowledgement.
 * fd-peer TYPE connect|listen PATH send|receive MODE
 */
#include "../../../support/c/fd-messages.h"

#define BYTES 8192

static int make_memory(int seals) {
  int fd = memfd_create("c memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, BYTES) < 0) fail("make memory");
  unsigned char *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED) fail("map memory");
  for (int i = 0; i < BYTES; i++) bytes[i] = i % 251;
  munmap(bytes, BYTES);
  if (seals != 0 && fcntl(fd, F_ADD_SEALS, seals) < 0) fail("seal memory");
  return fd;
}

static void send_memory(int socket, const char *mode) {
  uint64_t size = BYTES;
  const char *bytes = (const char *)&size;
  int fds[2] = {make_memory(F_SEAL_SHRINK | F_SEAL_GROW), 0};
  if (strcmp(mode, "good") == 0) {
    send_fds(socket, &size, 8, fds, 1);
    await_acknowledgement(socket);
  } else if (strcmp(mode, "split") == 0) {
    send_fds(socket, bytes, 3, fds, 1);
    say("half");
    await_line();
    send_fds(socket, bytes + 3, 5, NULL, 0);
    await_acknowledgement(socket);
  } else if (strcmp(mode, "half") == 0) {
    send_fds(socket, bytes, 3, fds, 1);
  } else if (strcmp(mode, "stuck") == 0) {
    send_fds(socket, bytes, 3, fds, 1);
    say("half");
    await_line();
  } else if (strcmp(mode, "bare") == 0) {
    send_fds(socket, &size, 8, NULL, 0);
  } else if (strcmp(mode, "two") == 0) {
    fds[1] = make_memory(0);
    send_fds(socket, &size, 8, fds, 2);
  } else if (strcmp(mode, "empty") == 0) {
    send_fds(socket, &size, 0, fds, 1);
  } else if (strcmp(mode, "short") == 0) {
    send_fds(socket, &size, 4, fds, 1);
  } else if (strcmp(mode, "pipe") == 0) {
    if (pipe(fds) < 0) fail("pipe");
    send_fds(socket, &size, 8, fds, 1);
  } else if (strcmp(mode, "file") == 0) {
    fds[0] = open("/proc/self/exe", O_RDONLY);
    send_fds(socket, &size, 8, fds, 1);
  } else if (strcmp(mode, "unsealed") == 0) {
    fds[0] = make_memory(0);
    send_fds(socket, &size, 8, fds, 1);
  } else if (strcmp(mode, "silent") == 0) {
    say("silent");
    await_line();
  } else {
    fail("unknown mode %s", mode);
  }
}

static void receive_memory(int socket, const char *mode) {
  uint64_t size;
  int fd = receive_fd(socket, &size, sizeof size);
  unsigned char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED) fail("map memory");
  for (uint64_t i = 0; i < size; i++)
    if (bytes[i] != i % 251) fail("byte %lu is %d", i, bytes[i]);
  bytes[0] = 42;
  say("received");
  if (strcmp(mode, "dies") == 0) await_line();
  acknowledge(socket);
}

int main(int argc, char **argv) {
  if (argc != 6) fail("usage: fd-peer TYPE connect|listen PATH send|receive MODE");
  int socket = strcmp(argv[2], "listen") == 0 ? accept_at(argv[1], argv[3]) : connect_to(argv[1], argv[3]);
  if (strcmp(argv[4], "send") == 0) send_memory(socket, argv[5]);
  else receive_memory(socket, argv[5]);
  return 0;
}
