/*
 * Exchanges memory of the host device by a bare handle in a file, written from docs/protocol.md ("Handles").
 * handle write PATH [PAUSE]: makes COUNT integers 0, 1, 2, ..., writes their handle, and after a line says the first one.
 * handle read PATH: opens the handle, checks the integers and makes them negative.
 */
#include "../../../support/c/common.h"
#include <sys/syscall.h>

#define COUNT 1024
#define BLOCK_BYTES (2 * 1024 * 1024)
#define PAGE_BYTES 4096
#define FILE_NUMBER 7

struct handle {
  char magic[4];
  uint8_t version, kind;
  uint16_t slot;
  uint32_t pid, fd;
  uint64_t start_ticks, file_number, generation;
  uint32_t pages, pid_namespace;
  uint8_t boot_id[16];
};
_Static_assert(sizeof(struct handle) == HANDLE_BYTES, "a handle has 64 bytes");

static uint64_t start_ticks(void) {
  char text[1024] = {0};
  int fd = open("/proc/self/stat", O_RDONLY);
  uint64_t ticks;
  if (fd < 0 || read(fd, text, sizeof text - 1) < 0) fail("/proc/self/stat");
  close(fd);
  /* Field 22; the name before field 3 may hold spaces. */
  char *field = strrchr(text, ')') + 2;
  for (int number = 3; number < 22; number++) field = strchr(field, ' ') + 1;
  if (sscanf(field, "%lu", &ticks) != 1) fail("the start of the process");
  return ticks;
}

static void boot_id(uint8_t *id) {
  char text[64] = {0};
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (file == NULL || fgets(text, sizeof text, file) == NULL) fail("boot_id");
  fclose(file);
  int count = 0;
  for (char *at = text; count < 16 && *at != 0;) {
    unsigned byte;
    if (*at == '-') { at++; continue; }
    if (sscanf(at, "%2x", &byte) != 1) fail("boot_id");
    id[count++] = byte;
    at += 2;
  }
}

static uint32_t pid_namespace(void) {
  char link[64] = {0};
  unsigned inode;
  if (readlink("/proc/self/ns/pid", link, sizeof link - 1) < 0) fail("the PID namespace");
  if (sscanf(link, "pid:[%u]", &inode) != 1) fail("the PID namespace");
  return inode;
}

static void write_memory(const char *path, size_t pause_after) {
  char name[64];
  snprintf(name, sizeof name, "cuda-ipc-memory-%d", FILE_NUMBER);
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, BLOCK_BYTES) < 0) fail("make memory");
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) fail("seal memory");
  int32_t *values = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (values == MAP_FAILED) fail("map memory");
  for (int i = 0; i < COUNT; i++) values[i] = i;
  struct handle handle = {
      .magic = "HIPC", .version = 2, .pid = getpid(), .fd = fd, .start_ticks = start_ticks(), .file_number = FILE_NUMBER,
      .pages = BLOCK_BYTES / PAGE_BYTES, .pid_namespace = pid_namespace()};
  boot_id(handle.boot_id);
  write_handle(path, &handle, pause_after);
  say("written");
  await_line();
  say("%d", values[0]);
}

static void read_memory(const char *path) {
  struct handle handle;
  char file[64];
  read_handle(path, &handle);
  if (memcmp(handle.magic, "HIPC", 4) != 0 || handle.version != 2 || handle.kind != 0) fail("no handle of memory");
  snprintf(file, sizeof file, "/proc/%u/fd/%u", handle.pid, handle.fd);
  int fd = open(file, O_RDWR);
  if (fd < 0) fail("open %s", file);
  int32_t *values = mmap(NULL, (size_t)handle.pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (values == MAP_FAILED) fail("map %s", file);
  for (int i = 0; i < COUNT; i++)
    if (values[i] != i) fail("element %d is %d", i, values[i]);
  for (int i = 0; i < COUNT; i++) values[i] = -i;
  say("read");
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "write") == 0) write_memory(argv[2], argc > 3 ? atoi(argv[3]) : HANDLE_BYTES);
  else if (argc > 2 && strcmp(argv[1], "read") == 0) read_memory(argv[2]);
  else fail("usage: handle write|read PATH");
  return 0;
}
