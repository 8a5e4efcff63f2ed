/*
 * Measures what it costs the CPU to enqueue signals and satisfied waits. The same loops:
 * bench/actors/enqueue.ts
 */
#include "words.h"

#define BATCH 8

static CUstream stream;
static struct word signalled, reached;
static uint64_t value = 1;

static void enqueue_signal(void) { write_on(stream, &signalled, value++); }
static void enqueue_wait(void) { wait_on(stream, &reached, 1); }

static void enqueue_batch(void) {
  CUstreamBatchMemOpParams operations[BATCH];
  memset(operations, 0, sizeof operations);
  for (int i = 0; i < BATCH; i += 2) {
    operations[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    operations[i].writeValue.address = signalled.device;
    operations[i].writeValue.value64 = value++;
    operations[i + 1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    operations[i + 1].waitValue.address = reached.device;
    operations[i + 1].waitValue.value64 = 1;
    operations[i + 1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  }
  CHECK(cuStreamBatchMemOp(stream, BATCH, operations, 0));
}

static void measure(const char *name, struct arguments arguments, void (*call)(void)) {
  struct samples samples = {0};
  for (long done = -arguments.warm_up; done < arguments.iterations; done += CALLS_PER_SAMPLE) {
    double start = now_us();
    for (int i = 0; i < CALLS_PER_SAMPLE; i++) call();
    double end = now_us();
    finish(stream);
    if (done >= 0) add_sample(&samples, (end - start) / CALLS_PER_SAMPLE);
  }
  report(name, arguments.iterations, &samples);
}

int main(int argc, char **argv) {
  struct arguments arguments = parse_arguments(argc, argv);
  open_device(arguments.ordinal);
  stream = create_stream();
  signalled = own_word(create_words());
  reached = own_word(create_words());
  store_word(&reached, 1);
  measure("enqueue-signal", arguments, enqueue_signal);
  measure("enqueue-wait", arguments, enqueue_wait);
  measure("enqueue-batch-8", arguments, enqueue_batch);
  return 0;
}
