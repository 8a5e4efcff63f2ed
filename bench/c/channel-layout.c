/*
 * Prints the channel layout that these C programs use, for a test. It is one JSON object with the
 * keys of src/ring/channel-layout.ts.
 */
#include "ring-layout.h"
#include <stdio.h>
#include <stdlib.h>

#define MEMBER(name, offset) printf("%s\"%s\":%d", offset == 0 ? "" : ",", #name, offset);

int main(void) {
  printf("{\"control\":{");
  CONTROL_LAYOUT(MEMBER)
  printf("},\"header\":{");
  HEADER_LAYOUT(MEMBER)
  printf("},\"page\":{");
  PAGE_LAYOUT(MEMBER)
  printf("},\"MAGIC\":[%u,%u],\"CHANNEL_VERSION\":%d,\"LINE_BYTES\":%d,\"PAGE_BYTES\":%d,\"READY_LINES\":%d", MAGIC_0, MAGIC_1,
         CHANNEL_VERSION, LINE_BYTES, PAGE_BYTES, READY_LINES);
  printf(",\"CLAIMS\":%d,\"RANK_MAX\":%d,\"HEADERS_AT\":%d", CLAIMS, RANK_MAX, CONTROL_headers);
  printf(",\"writerStates\":{\"none\":%d,\"open\":%d,\"closed\":%d,\"gone\":%d,\"awaited\":%d}", WRITER_NONE, WRITER_OPEN, WRITER_CLOSED,
         WRITER_GONE, WRITER_AWAITED);
  printf(",\"readerStates\":{\"none\":%d,\"attached\":%d,\"left\":%d}", READER_NONE, READER_ATTACHED, READER_LEFT);
  printf(",\"readerModes\":{\"waitedFor\":%d,\"lossy\":%d}", READER_WAITED_FOR, READER_LOSSY);
  printf(",\"whenFullPolicies\":{\"wait\":%d,\"drop-oldest\":%d,\"drop-newest\":%d,\"error\":%d}", WHEN_FULL_WAIT, WHEN_FULL_DROP_OLDEST,
         WHEN_FULL_DROP_NEWEST, WHEN_FULL_ERROR);
  printf(",\"sizes\":[");
  for (uint32_t slots = 1, comma = 0; slots <= 1024; slots *= 3) {
    for (uint32_t meta = 0; meta <= 200; meta += 50, comma = 1) {
      printf("%s[%u,%u,%u,%lu,%u]", comma ? "," : "", slots, meta, header_stride_of(meta), control_bytes_of(slots, meta), window_of(slots));
    }
  }
  printf("]}\n");
  return 0;
}
