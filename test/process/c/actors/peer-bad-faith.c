/* Everything that the client does, against a hub that may be hostile. */
#include "peer.h"

static bool ignore(void *context, const cuda_ipc_entry *entry) {
  return context == NULL && *entry->name != 0;
}

static int try_arrays(cuda_ipc_hub *hub) {
  int64_t shape[] = {3};
  cuda_ipc_create_options options = {.dtype = "int32", .rank = 1, .shape = shape};
  int succeeded = 0;
  cuda_ipc_array *made = cuda_ipc_create(hub, "frame", &options, &error);
  if (made != NULL) succeeded += cuda_ipc_publish(made, &error) == 0;
  cuda_ipc_array *opened = cuda_ipc_open(hub, "frame", CUDA_IPC_READ, 20, &error);
  if (opened != NULL && opened->data != NULL) {
    free(gather(opened));
    succeeded++;
  }
  succeeded += cuda_ipc_list(hub, ignore, NULL, &error) == 0;
  cuda_ipc_timeline *timeline = cuda_ipc_timeline_open(hub, "steps", 20, &error);
  if (timeline != NULL) succeeded += cuda_ipc_timeline_wait(timeline, 1, 5, &error) == 0;
  cuda_ipc_timeline_close(timeline);
  cuda_ipc_array_close(opened);
  cuda_ipc_array_close(made);
  cuda_ipc_remove(hub, "frame", &error);
  return succeeded;
}

static int try_bundles(cuda_ipc_hub *hub) {
  int64_t shape[] = {3};
  cuda_ipc_bundle_part parts[] = {{"w", "int32", 1, shape}, {"\"b\"\n", "float64", 0, NULL}};
  cuda_ipc_pair metadata[] = {{"format", "pt"}};
  cuda_ipc_bundle_options options = {.parts = parts, .count = 2, .metadata = metadata,
                                     .metadata_count = 1};
  int succeeded = 0;
  cuda_ipc_bundle *made = cuda_ipc_bundle_create(hub, "weights", &options, &error);
  if (made != NULL) succeeded += cuda_ipc_bundle_publish(made, &error) == 0;
  cuda_ipc_bundle *opened = cuda_ipc_bundle_open(hub, "weights", CUDA_IPC_READ, 20, &error);
  if (opened != NULL) {
    for (size_t i = 0; i < opened->count; i++)
      if (opened->arrays[i].array.data != NULL) free(gather(&opened->arrays[i].array));
    succeeded += cuda_ipc_bundle_find(opened, "w") != NULL;
  }
  cuda_ipc_bundle_close(opened);
  cuda_ipc_bundle_close(made);
  return succeeded;
}

static int try_channels(cuda_ipc_hub *hub, bool lossy) {
  int64_t shape[] = {3};
  cuda_ipc_channel_options channel = {.dtype = "uint8", .rank = 1, .shape = shape, .slots = 2,
                                      .readers_max = 2, .meta_bytes_max = 8};
  cuda_ipc_reader_options options = {.lossy = lossy, .from = "latest", .timeout_ms = 20};
  int succeeded = 0;
  cuda_ipc_writer *writer = cuda_ipc_writer_create(hub, "channel", &channel, &error);
  cuda_ipc_slot slot;
  if (writer != NULL && cuda_ipc_writer_loan(writer, &slot, 5, &error) == 0)
    succeeded += cuda_ipc_writer_commit(writer, 3, NULL, 0, 0, &error) == 0;
  cuda_ipc_writer_close(cuda_ipc_writer_resume(hub, "channel", 20, &error));
  cuda_ipc_reader *reader = cuda_ipc_reader_open(hub, "channel", &options, &error);
  cuda_ipc_message message;
  if (reader != NULL && cuda_ipc_reader_next(reader, &message, 5, &error) == 1)
    cuda_ipc_reader_release(reader, &message);
  cuda_ipc_reader_close(reader);
  cuda_ipc_writer_close(writer);
  return succeeded;
}

int try_everything(const char *socket_path, int rounds) {
  int succeeded = 0;
  for (int round = 0; round < rounds; round++) {
    cuda_ipc_hub *hub = cuda_ipc_connect(socket_path, "peer.c", 50, &error);
    if (hub == NULL) continue;
    succeeded += try_arrays(hub) + try_bundles(hub) + try_channels(hub, round % 2 == 0);
    cuda_ipc_disconnect(hub);
  }
  return succeeded;
}
