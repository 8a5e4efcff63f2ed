/*
 * Reads or writes a channel that another process created, for a test: PEER read|write MESSAGES. The
 * channel's descriptors start at 3, in the order in which a hub passes them. Message i has i in its
 * first and last 32-bit word. The writer ends the channel afterwards.
 */
#include "ring.h"

#define FIRST_FD 3

static struct ring_fds inherited_fds(uint32_t places) {
  struct ring_fds fds = {.data = FIRST_FD, .control = FIRST_FD + 1, .room_bell = FIRST_FD + 2, .seats = places};
  for (uint32_t place = 0; place < places; place++) {
    fds.pages[place] = FIRST_FD + 3 + 2 * place;
    fds.bells[place] = FIRST_FD + 4 + 2 * place;
  }
  return fds;
}

static uint32_t count_places(void) {
  int64_t bytes;
  uint32_t places = *count32_at(map_file(FIRST_FD + 1, PROT_READ, &bytes), CONTROL_readersMax);
  return places < SEATS_MAX ? places : SEATS_MAX;
}

static void read_messages(int64_t messages) {
  struct ring_fds fds = inherited_fds(1);
  struct ring_reader reader = open_reader(&fds);
  /* The test waits for this line before it writes. */
  printf("attached\n");
  fflush(stdout);
  for (int64_t i = 0; i < messages; i++) {
    take_asleep(&reader);
    const uint32_t *words = (const uint32_t *)taken_slot(&reader);
    uint32_t last = words[taken_bytes(&reader) / 4 - 1];
    if (words[0] != (uint32_t)i || last != (uint32_t)i) fail("message %ld says %u and %u", i, words[0], last);
    release(&reader);
  }
  printf("%ld\n", messages);
}

static void write_messages(int64_t messages) {
  struct ring_fds fds = inherited_fds(count_places());
  struct ring_writer writer = open_writer(&fds);
  int64_t bytes = *count_at(writer.ring.control, CONTROL_slotBytes);
  for (int64_t i = 0; i < messages; i++) {
    reserve(&writer);
    uint32_t *words = (uint32_t *)reserved_slot(&writer);
    words[0] = words[bytes / 4 - 1] = (uint32_t)i;
    commit(&writer, bytes);
  }
  end_channel(&writer);
  printf("%ld\n", messages);
}

int main(int argc, char **argv) {
  if (argc != 3) fail("Usage: %s read|write MESSAGES", argv[0]);
  if (strcmp(argv[1], "read") == 0) read_messages(atol(argv[2]));
  else write_messages(atol(argv[2]));
  return 0;
}
