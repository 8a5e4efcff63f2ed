/*
 * What TCP carries from one memory file to another: the peer of copies between machines.
 * Usage: network receive ADDRESS BYTES new|used
 *        network send ADDRESS BYTES PORT
 * The receiver prints its port, then milliseconds from the connection to the last byte. Its memory
 * is new, as that of a copy is, or every page of it was used before.
 */
#include "common.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#define PIECE_BYTES (4 << 20)

static int memory_file(size_t bytes) {
  int fd = memfd_create("network", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) fail("memory file: %s", strerror(errno));
  return fd;
}

static char *map(int fd, size_t bytes) {
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) fail("mmap: %s", strerror(errno));
  return memory;
}

static void receive_all(struct sockaddr_in address, size_t bytes, int is_new) {
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, (void *)&address, length) != 0 || listen(listener, 1) != 0) fail("listen: %s", strerror(errno));
  getsockname(listener, (void *)&address, &length);
  char *memory = map(memory_file(bytes), bytes);
  if (!is_new) memset(memory, 1, bytes);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  int connection = accept(listener, NULL, NULL);
  if (connection < 0) fail("accept: %s", strerror(errno));
  double start_us = now_us();
  for (size_t done = 0; done < bytes;) {
    size_t rest = bytes - done;
    ssize_t count = recv(connection, memory + done, rest < PIECE_BYTES ? rest : PIECE_BYTES, 0);
    if (count <= 0) fail("recv after %zu bytes: %s", done, count == 0 ? "the end" : strerror(errno));
    done += (size_t)count;
  }
  printf("%.3f\n", (now_us() - start_us) / 1e3);
}

static void send_all(struct sockaddr_in address, size_t bytes) {
  int file = memory_file(bytes);
  memset(map(file, bytes), 1, bytes);
  int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(connection, (void *)&address, sizeof address) != 0) fail("connect: %s", strerror(errno));
  for (off_t done = 0; (size_t)done < bytes;)
    if (sendfile(connection, file, &done, bytes - (size_t)done) <= 0) fail("sendfile: %s", strerror(errno));
}

int main(int argc, char **argv) {
  if (argc != 5) fail("Usage: %s receive ADDRESS BYTES new|used, or send ADDRESS BYTES PORT", argv[0]);
  struct sockaddr_in address = {.sin_family = AF_INET};
  size_t bytes = strtoull(argv[3], NULL, 10);
  if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) fail("no address: %s", argv[2]);
  if (strcmp(argv[1], "receive") == 0) {
    receive_all(address, bytes, strcmp(argv[4], "new") == 0);
    return 0;
  }
  address.sin_port = htons((uint16_t)atoi(argv[4]));
  send_all(address, bytes);
  return 0;
}
