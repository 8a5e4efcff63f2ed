/*
 * The C side of the tests beside it: peer SOCKET COMMAND [ARGUMENT...]. It prints lines of JSON,
 * and waits for lines of its input where a command says so.
 */
#include "peer.h"

cuda_ipc_error error;

void hear(void) {
  int c;
  while ((c = getchar()) != EOF && c != '\n') continue;
}

void say_hex(const void *bytes, size_t count) {
  putchar('"');
  for (size_t i = 0; i < count; i++) printf("%02x", ((const unsigned char *)bytes)[i]);
  putchar('"');
}

void say_shape(const int64_t *shape, int rank) {
  for (int i = 0; i < rank; i++) printf("%s%lld", i == 0 ? "" : ",", (long long)shape[i]);
}

void end_line(void) {
  printf("\n");
  fflush(stdout);
}

void say(const char *text) {
  printf("\"%s\"", text);
  end_line();
}

void say_result(bool ok) {
  printf("[\"%s\",", ok ? "OK" : error.code);
  say_hex(error.message, ok ? 0 : strlen(error.message));
  printf("]");
  end_line();
}

unsigned char *from_hex(const char *digits, size_t *length) {
  *length = strlen(digits) / 2;
  unsigned char *bytes = malloc(*length + 1);
  for (size_t i = 0; i < *length; i++) {
    unsigned byte;
    sscanf(digits + 2 * i, "%2x", &byte);
    bytes[i] = (unsigned char)byte;
  }
  return bytes;
}

unsigned char *gather(const cuda_ipc_array *array) {
  int64_t index[CUDA_IPC_DIMENSIONS_MAX] = {0};
  size_t length = (size_t)(array->element_count * array->item_bytes);
  unsigned char *bytes = malloc(length + 1);
  if (array->contiguous) {
    CHECK(cuda_ipc_copy_from(array, bytes, length, &error) == 0);
    return bytes;
  }
  for (int64_t i = 0; i < array->element_count; i++) {
    int64_t at = 0;
    for (int axis = 0; axis < array->layout.rank; axis++)
      at += index[axis] * array->layout.strides[axis];
    memcpy(bytes + i * array->item_bytes, (char *)array->data + at * array->item_bytes,
           (size_t)array->item_bytes);
    for (int axis = array->layout.rank - 1; axis >= 0; axis--) {
      if (++index[axis] < array->layout.shape[axis]) break;
      index[axis] = 0;
    }
  }
  return bytes;
}

void say_array(const cuda_ipc_array *array) {
  unsigned char *bytes = gather(array);
  printf("{\"dtype\":\"%s\",\"shape\":[", array->layout.dtype);
  say_shape(array->layout.shape, array->layout.rank);
  printf("],\"contiguous\":%s,\"hex\":", array->contiguous ? "true" : "false");
  say_hex(bytes, (size_t)(array->element_count * array->item_bytes));
  printf("}");
  end_line();
  free(bytes);
}

int main(int argc, char **argv) {
  const struct command *all[] = {array_commands, bundle_commands, reader_commands,
                                 writer_commands};
  if (argc < 3) return 2;
  if (strcmp(argv[2], "tries") == 0) {
    printf("%d\n", try_everything(argv[1], atoi(argv[3])));
    return 0;
  }
  if (strcmp(argv[2], "plays") == 0) return play_vectors(argv[1], argc - 3, argv + 3), 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (const struct command *command = all[i]; command->name != NULL; command++) {
      if (strcmp(argv[2], command->name) != 0 || argc - 3 < command->arguments) continue;
      cuda_ipc_hub *hub = cuda_ipc_connect(argv[1], "peer.c", LIMIT_MS, &error);
      CHECK(hub != NULL);
      command->run(hub, argc - 3, argv + 3);
      cuda_ipc_disconnect(hub);
      return 0;
    }
  return 2;
}
