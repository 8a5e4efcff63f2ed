/* The client of include/cuda_ipc.h. It follows docs/protocol.md; headings name that page's
 * parts. */
#define _GNU_SOURCE
#include "cuda_ipc.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define INTEGER_MAX 9007199254740991 /* of JSON, 2^53 - 1 */
#define PAGE 4096
#define EXPLAIN_MS 1000  /* for the hub's word on what an open waited for */
#define SPIN_US 50       /* how long a reader or writer looks before it sleeps */
#define LOOKS_AT_SLOT 32  /* how often a reader looks at its slot before it looks at the channel */
#define ROW_ALIGNMENT 256
#define TAKEN_AT_A_TIME (16 << 20)
#define HUGETLBFS 0x958458f6 /* of statfs */

/* ---- errors and time ---- */

__attribute__((format(printf, 3, 4))) static int fail(cuda_ipc_error *error, const char *code,
                                                      const char *format, ...) {
  va_list values;
  if (error == NULL) return -1;
  snprintf(error->code, sizeof error->code, "%s", code);
  va_start(values, format);
  vsnprintf(error->message, sizeof error->message, format, values);
  va_end(values);
  return -1;
}

static int fail_errno(cuda_ipc_error *error, const char *what, const char *name) {
  const char *code = errno == EMFILE || errno == ENFILE ? "TOO_MANY_FDS"
                     : errno == ENOMEM                  ? "OUT_OF_MEMORY"
                     : errno == ENOSPC                  ? "DISK_FULL"
                     : errno == EFBIG                   ? "LIMIT_EXCEEDED"
                     : errno == EPROTOTYPE              ? "WRONG_KIND"
                     : errno == EACCES || errno == EPERM ? "PERMISSION_DENIED"
                                                         : "SYSTEM_ERROR";
  const char *advice = errno == EFBIG ? ". Raise the limit for the size of files: ulimit -f unlimited"
                       : errno == EPROTOTYPE ? ". Another program listens there" : "";
  return fail(error, code, "Cannot %s \"%s\": %s%s", what, name, strerror(errno), advice);
}

void cuda_ipc_die(const cuda_ipc_error *error) {
  fprintf(stderr, "error[%s]: %s\n", error->code, error->message);
  exit(1);
}

static int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* When a wait ends, in us of the monotonic clock; INT64_MAX is never. */
static int64_t deadline_in(int64_t milliseconds) {
  int64_t end;
  if (milliseconds < 0 || __builtin_mul_overflow(milliseconds, 1000, &end) ||
      __builtin_add_overflow(end, now_us(), &end))
    return INT64_MAX;
  return end;
}

/* For poll: rounded up, so that a wait does not end early. */
static int poll_ms(int64_t deadline) {
  if (deadline == INT64_MAX) return -1;
  int64_t left = deadline - now_us();
  if (left <= 0) return 0;
  left = (left + 999) / 1000;
  return left > INT32_MAX ? INT32_MAX : (int)left;
}

static void pause_us(int64_t us) {
  struct timespec rest = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&rest, NULL);
}

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* "Store" and "load" of the page are sequentially consistent. */
#define LOAD(at) __atomic_load_n(at, __ATOMIC_SEQ_CST)
#define STORE(at, value) __atomic_store_n(at, value, __ATOMIC_SEQ_CST)

/* ---- JSON ---- */

/* A value in a text. `next` is the index of the token behind it and all that it contains. */
struct token { char type; int start, end, count, next; };
struct json { const char *text; int length, at, count, room, depth; struct token *tokens; };

/* strchr alone also finds the NUL that ends the set. */
static bool is_one_of(char c, const char *set) { return c != 0 && strchr(set, c) != NULL; }

/* Goes past all characters of a set, and says how many there were. */
static int skip_all(struct json *json, const char *set) {
  int start = json->at;
  while (json->at < json->length && is_one_of(json->text[json->at], set)) json->at++;
  return json->at - start;
}

static void skip_space(struct json *json) {
  /* Messages have none, and this is called for each character that means something. */
  if (json->at < json->length && (unsigned char)json->text[json->at] > ' ') return;
  skip_all(json, " \t\n\r");
}

static bool skip_char(struct json *json, const char *set) {
  if (json->at >= json->length || !is_one_of(json->text[json->at], set)) return false;
  json->at++;
  return true;
}

static bool skip_string(struct json *json) {
  json->at++;
  while (json->at < json->length) {
    unsigned char c = (unsigned char)json->text[json->at++];
    if (c == '"') return true;
    if (c < 0x20) return false;
    if (c != '\\') continue;
    if (skip_char(json, "\"\\/bfnrt")) continue;
    if (!skip_char(json, "u")) return false;
    for (int i = 0; i < 4; i++)
      if (!skip_char(json, "0123456789abcdefABCDEF")) return false;
  }
  return false;
}

static bool skip_word(struct json *json, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(json->length - json->at) < length) return false;
  if (memcmp(json->text + json->at, word, length) != 0) return false;
  json->at += (int)length;
  return true;
}

static bool skip_number(struct json *json) {
  const char *digits = "0123456789";
  skip_char(json, "-");
  if (!skip_char(json, "0") && skip_all(json, digits) == 0) return false;
  if (skip_char(json, ".") && skip_all(json, digits) == 0) return false;
  if (!skip_char(json, "eE")) return true;
  skip_char(json, "+-");
  return skip_all(json, digits) > 0;
}

static bool take_char(struct json *json, char wanted) {
  skip_space(json);
  if (json->at >= json->length || json->text[json->at] != wanted) return false;
  json->at++;
  return true;
}

static bool parse_value(struct json *json) {
  skip_space(json);
  if (json->at >= json->length) return false;
  if (json->count == json->room) {
    int room = json->room == 0 ? 256 : 2 * json->room;
    struct token *tokens = realloc(json->tokens, (size_t)room * sizeof *tokens);
    if (tokens == NULL) return false;
    json->tokens = tokens;
    json->room = room;
  }
  int self = json->count++, count = 0;
  char type = json->text[json->at];
  int start = json->at;
  if (type == '{' || type == '[') {
    char end = type == '{' ? '}' : ']';
    json->at++;
    if (++json->depth > CUDA_IPC_JSON_LEVELS_MAX) return false;
    if (!take_char(json, end)) {
      do {
        if (type == '{') {
          skip_space(json);
          if (json->at >= json->length || json->text[json->at] != '"') return false;
          if (!parse_value(json) || !take_char(json, ':')) return false;
        }
        if (!parse_value(json)) return false;
        count++;
      } while (take_char(json, ','));
      if (!take_char(json, end)) return false;
    }
    json->depth--;
  } else if (type == '"') {
    if (!skip_string(json)) return false;
  } else if (!skip_word(json, "true") && !skip_word(json, "false") && !skip_word(json, "null") &&
             !skip_number(json)) {
    return false;
  }
  json->tokens[self] = (struct token){type, start, json->at, count, json->count};
  return true;
}

/* Neither longer than it must be, nor half of a surrogate pair, nor past U+10FFFF. */
static bool is_utf8(const unsigned char *at, const unsigned char *end) {
  while (at < end) {
    unsigned c = *at++;
    if (c < 0x80) continue;
    int more = c < 0xc2 ? -1 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : -1;
    unsigned least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    unsigned most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (more < 0 || end - at < more) return false;
    for (; more > 0; more--, at++, least = 0x80, most = 0xbf)
      if (*at < least || *at > most) return false;
  }
  return true;
}

/* The text must stay as long as the result is used. */
static bool parse_json(struct json *json, const char *text, int length) {
  struct token *tokens = json->tokens;
  int room = json->room;
  *json = (struct json){.text = text, .length = length, .tokens = tokens, .room = room};
  if (!is_utf8((const unsigned char *)text, (const unsigned char *)text + length)) return false;
  if (!parse_value(json)) return false;
  skip_space(json);
  return json->at == json->length;
}

static size_t copy_string(const struct json *json, int at, char *to, size_t room);

static bool is_type(const struct json *json, int at, const char *types) {
  return at >= 0 && is_one_of(json->tokens[at].type, types);
}

static bool is_text(const struct json *json, int at, const char *text) {
  if (at < 0) return false;
  const struct token *token = &json->tokens[at];
  const char *found = json->text + token->start + 1;
  size_t length = strlen(text), there = (size_t)(token->end - token->start - 2);
  if (token->type != '"') return false;
  if (there == length && memcmp(found, text, length) == 0) return true;
  char plain[64];
  return memchr(found, '\\', there) != NULL &&
         copy_string(json, at, plain, sizeof plain) == length && memcmp(plain, text, length) == 0;
}

/* The value of a member, the last one of this name, or -1. Also -1 if `at` is, or is no object. */
static int member(const struct json *json, int at, const char *name) {
  if (at < 0 || json->tokens[at].type != '{') return -1;
  int key = at + 1, found = -1;
  for (int i = 0; i < json->tokens[at].count; i++) {
    if (is_text(json, key, name)) found = key + 1;
    key = json->tokens[key + 1].next;
  }
  return found;
}

/* Whether it is an object with none but these members. */
#define HAS_ONLY(json, at, ...) has_only(json, at, (const char *const[]){__VA_ARGS__, NULL})
static bool has_only(const struct json *json, int at, const char *const *names) {
  if (!is_type(json, at, "{")) return false;
  for (int i = 0, key = at + 1; i < json->tokens[at].count; i++, key = json->tokens[key + 1].next) {
    int n = 0;
    while (names[n] != NULL && !is_text(json, key, names[n])) n++;
    if (names[n] == NULL) return false;
  }
  return true;
}

static bool is_true(const struct json *json, int at) {
  return at >= 0 && json->tokens[at].type == 't';
}

/* False if it is no integer in this range. */
static bool integer(const struct json *json, int at, int64_t low, int64_t high, int64_t *value) {
  /* Inside of a list or an object, so a character that ends the number follows. */
  if (at == 0 || !is_type(json, at, "-0123456789")) return false;
  const char *digits = json->text + json->tokens[at].start;
  const char *behind = json->text + json->tokens[at].end;
  char *end;
  errno = 0;
  *value = strtoll(digits, &end, 10);
  if (end == behind) return errno == 0 && *value >= low && *value <= high;
  /* 2.0 and 20e-1 are 2. */
  double number = strtod(digits, &end);
  if (end != behind || number < (double)low || number > (double)high) return false;
  *value = (int64_t)number;
  return (double)*value == number;
}

static unsigned hex4(const char *at) {
  unsigned value = 0;
  for (int i = 0; i < 4; i++) {
    char c = at[i];
    value = 16 * value + (unsigned)(c >= 'a' ? c - 'a' + 10 : c >= 'A' ? c - 'A' + 10 : c - '0');
  }
  return value & 0xffff;
}

static char *put_utf8(char *to, unsigned code) {
  if (code < 0x80) *to++ = (char)code;
  else if (code < 0x800) *to++ = (char)(0xc0 | code >> 6), *to++ = (char)(0x80 | (code & 63));
  else if (code < 0x10000) {
    *to++ = (char)(0xe0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 63)), *to++ = (char)(0x80 | (code & 63));
  } else {
    *to++ = (char)(0xf0 | code >> 18), *to++ = (char)(0x80 | (code >> 12 & 63));
    *to++ = (char)(0x80 | (code >> 6 & 63)), *to++ = (char)(0x80 | (code & 63));
  }
  return to;
}

static char unescaped(char kind) {
  switch (kind) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return kind;
  }
}

/* The code behind "\u", which it goes past. Half of a pair alone becomes U+FFFD. */
static unsigned take_code(const char **from, const char *end) {
  unsigned code = hex4(*from);
  *from += 4;
  if (code < 0xd800 || code > 0xdfff) return code;
  if (code < 0xdc00 && end - *from >= 6 && (*from)[0] == '\\' && (*from)[1] == 'u') {
    unsigned low = hex4(*from + 2);
    if (low >= 0xdc00 && low <= 0xdfff) {
      *from += 6;
      return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
  }
  return 0xfffd;
}

/* Copies a string, and gives its length. If it does not fit, its end is cut off. A value of
 * another type gives "". */
static size_t copy_string(const struct json *json, int at, char *to, size_t room) {
  char *start = to, *last = to + room - 1;
  *to = 0;
  if (at < 0 || json->tokens[at].type != '"') return 0;
  const char *from = json->text + json->tokens[at].start + 1;
  const char *end = json->text + json->tokens[at].end - 1;
  while (from < end && to < last) {
    if (*from != '\\') *to++ = *from++;
    else if (from[1] != 'u') *to++ = unescaped(from[1]), from += 2;
    else {
      char bytes[4];
      from += 2;
      size_t length = (size_t)(put_utf8(bytes, take_code(&from, end)) - bytes);
      if ((size_t)(last - to) < length) break;
      memcpy(to, bytes, length);
      to += length;
    }
  }
  *to = 0;
  return (size_t)(to - start);
}

/* ---- texts that are sent ---- */

/* A text is built in room for it. One that was too long has `length` >= `room`. */
struct text { char *bytes; size_t length, room; };

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
  va_list values;
  size_t room = text->room - text->length;
  va_start(values, format);
  size_t length = (size_t)vsnprintf(text->bytes + text->length, room, format, values);
  va_end(values);
  text->length += length < room ? length : room;
}

static void add_bytes(struct text *text, const char *bytes, size_t length) {
  size_t room = text->room - text->length;
  if (length > room) length = room;
  memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
}

static void add_string(struct text *text, const char *string) {
  add_bytes(text, "\"", 1);
  for (;;) {
    size_t plain = 0;
    while ((unsigned char)string[plain] >= 0x20 && !is_one_of(string[plain], "\"\\")) plain++;
    add_bytes(text, string, plain);
    string += plain;
    if (*string == 0) break;
    if ((unsigned char)*string < 0x20) add(text, "\\u%04x", (unsigned)*string++);
    else add(text, "\\%c", *string++);
  }
  add_bytes(text, "\"", 1);
}

/* ---- the socket ---- */

struct cuda_ipc_hub {
  int fd;
  int64_t last_id, timeout_ms;
  int64_t late;   /* requests that were given up and are still to be answered */
  int receive_ms; /* SO_RCVTIMEO of the socket; 0 is none */
  bool gone;
  /* The latest answer: `result` is a token of `json`. */
  struct json json;
  int result;
  int fds[CUDA_IPC_FDS_MAX], fd_count;
  cuda_ipc_reader *readers; /* those that are open */
  struct kept *kept; /* leases that may have a name, and whose handles are closed */
  bool passes_name; /* the object that is being created takes over a name, which its lease keeps */
  struct text sent;
  char request[CUDA_IPC_MESSAGE_BYTES_MAX + 1], received[CUDA_IPC_MESSAGE_BYTES_MAX + 1];
  char path[CUDA_IPC_SOCKET_PATH_BYTES_MAX + 1];
};

/* Begins a request. The caller adds its fields and sends it. */
static struct text *begin(cuda_ipc_hub *hub, const char *op) {
  hub->sent = (struct text){hub->request, 0, sizeof hub->request};
  add(&hub->sent, "{\"v\":%d,\"id\":%lld,\"op\":\"%s\"", CUDA_IPC_PROTOCOL_VERSION,
      (long long)++hub->last_id, op);
  return &hub->sent;
}

static void close_received(cuda_ipc_hub *hub) {
  for (int i = 0; i < hub->fd_count; i++)
    if (hub->fds[i] >= 0) close(hub->fds[i]);
  hub->fd_count = 0;
}

static int hub_gone(cuda_ipc_hub *hub, cuda_ipc_error *error) {
  hub->gone = true;
  return fail(error, "HUB_GONE", "The connection to the hub at %s has ended. Connect again",
              hub->path);
}

/* After what no hub says, nothing that it says is to be trusted. */
static int end_with(cuda_ipc_hub *hub, const char *code, cuda_ipc_error *error) {
  close_received(hub);
  hub->gone = true;
  return fail(error, code, "The hub at %s sent %s", hub->path,
              strcmp(code, "MESSAGE_TOO_LARGE") == 0 ? "too long a packet" : "what is no reply");
}

/* True once the hub has hung up. It is then the end of each wait, because nobody else wakes us. */
static bool has_hung_up(cuda_ipc_hub *hub) {
  struct pollfd watched = {.fd = hub->fd, .events = POLLRDHUP};
  if (!hub->gone && poll(&watched, 1, 0) > 0) hub->gone = true;
  return hub->gone;
}

/* Between attempts to send descriptors while this user has too many in flight. */
#define IN_FLIGHT_PAUSE_US 10000

static int send_request(cuda_ipc_hub *hub, const int *fds, int fd_count, int64_t deadline,
                        cuda_ipc_error *error) {
  union { char bytes[CMSG_SPACE(CUDA_IPC_FDS_MAX * sizeof(int))]; struct cmsghdr header; } control;
  struct iovec vector = {hub->request, hub->sent.length};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  if (hub->sent.length > CUDA_IPC_MESSAGE_BYTES_MAX)
    return fail(error, "MESSAGE_TOO_LARGE", "Cannot send a request of more than %d bytes",
                CUDA_IPC_MESSAGE_BYTES_MAX);
  if (fd_count > 0) {
    memset(&control, 0, sizeof control);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN((size_t)fd_count * sizeof(int));
    memcpy(CMSG_DATA(&control.header), fds, (size_t)fd_count * sizeof(int));
    message.msg_control = &control;
    message.msg_controllen = CMSG_SPACE((size_t)fd_count * sizeof(int));
  }
  for (;;) {
    if (sendmsg(hub->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
    if (errno == EINTR) continue;
    /* The hub's last words may still wait to be received. */
    if (errno == EPIPE || errno == ECONNRESET) return 0;
    if (errno == ETOOMANYREFS) {
      /* It passes. It is charged to the user, so the culprit is any process of this user. */
      if (poll_ms(deadline) == 0)
        return fail(error, "TIMEOUT", "Cannot send to %s: user %u has more file descriptors in "
                    "flight than this process may open (ulimit -n). One of its processes sends some "
                    "that nobody receives", hub->path, (unsigned)getuid());
      pause_us(IN_FLIGHT_PAUSE_US);
      continue;
    }
    if (errno != EAGAIN) return fail_errno(error, "send to", hub->path);
    struct pollfd watched = {.fd = hub->fd, .events = POLLOUT};
    if (poll(&watched, 1, poll_ms(deadline)) == 0)
      return fail(error, "TIMEOUT", "The hub at %s takes no requests", hub->path);
  }
}

/* Lets the next receive end at the deadline. False if that is over. The socket keeps its limit, and
 * most requests have the same one, so a request and its answer take two system calls. */
static bool limit_receive(cuda_ipc_hub *hub, int64_t deadline) {
  int ms = poll_ms(deadline);
  if (ms == 0) return false;
  if (ms < 0) ms = 0;
  if (ms == hub->receive_ms) return true;
  struct timeval limit = {ms / 1000, ms % 1000 * 1000};
  if (setsockopt(hub->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) return false;
  hub->receive_ms = ms;
  return true;
}

/* Receives one packet. Returns 1, or 0 if the time is up, or -1. */
static int receive_packet(cuda_ipc_hub *hub, int64_t deadline, bool *damaged,
                          cuda_ipc_error *error) {
  union { char bytes[CMSG_SPACE(CUDA_IPC_FDS_MAX * sizeof(int))]; struct cmsghdr header; } control;
  bool was_reset = false;
  hub->fd_count = 0;
  for (;;) {
    struct iovec vector = {hub->received, sizeof hub->received};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    bool is_over = !limit_receive(hub, deadline);
    ssize_t length = recvmsg(hub->fd, &message, MSG_CMSG_CLOEXEC | (is_over ? MSG_DONTWAIT : 0));
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == ECONNRESET && !was_reset) {
      /* Linux reports it once, ahead of an answer that waits. */
      was_reset = true;
      continue;
    }
    if (length < 0 && errno == EAGAIN) {
      if (is_over) return 0;
      continue;
    }
    if (length <= 0) return hub_gone(hub, error);
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part != NULL;
         part = CMSG_NXTHDR(&message, part)) {
      if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
      size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      if (count > (size_t)(CUDA_IPC_FDS_MAX - hub->fd_count)) count = 0;
      memcpy(hub->fds + hub->fd_count, CMSG_DATA(part), count * sizeof(int));
      hub->fd_count += (int)count;
    }
    *damaged = (message.msg_flags & MSG_CTRUNC) != 0;
    if ((message.msg_flags & MSG_TRUNC) != 0 || length > CUDA_IPC_MESSAGE_BYTES_MAX)
      return end_with(hub, "MESSAGE_TOO_LARGE", error);
    if (parse_json(&hub->json, hub->received, (int)length)) return 1;
    return end_with(hub, "INVALID_MESSAGE", error);
  }
}

static void begin_release(cuda_ipc_hub *hub, int64_t lease) {
  add(begin(hub, "release"), ",\"lease\":%lld}", (long long)lease);
}

/* Gives back what nobody uses. The answer to it is dropped, as any late one. */
static void give_up_lease(cuda_ipc_hub *hub, int64_t lease) {
  begin_release(hub, lease);
  if (send_request(hub, NULL, 0, deadline_in(hub->timeout_ms), NULL) == 0) hub->late++;
}

/* The error of the latest answer. A code that is unknown here is SYSTEM_ERROR. */
static void read_error(const struct json *json, int told, cuda_ipc_error *error) {
  static const char *const codes[] = {CUDA_IPC_ERROR_CODES};
  int code = member(json, told, "code");
  const char *known = "SYSTEM_ERROR";
  if (error == NULL) return;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (is_text(json, code, codes[i])) known = codes[i];
  fail(error, known, "%s", "");
  copy_string(json, member(json, told, "message"), error->message, sizeof error->message);
}

/* A lease that is kept because the name of an older object may have passed to its object. */
struct kept {
  struct kept *next;
  int64_t lease, request; /* the `publish` that tells; 0 once it has */
  char name[CUDA_IPC_NAME_BYTES_MAX + 1];
};

static void give_up_kept(cuda_ipc_hub *hub, struct kept **at) {
  struct kept *kept = *at;
  *at = kept->next;
  give_up_lease(hub, kept->lease);
  free(kept);
}

/* The answer to a `publish`, if it was one, of a lease that is kept. */
static void settle_kept(cuda_ipc_hub *hub, int64_t id, bool ok) {
  struct kept **at = &hub->kept;
  while (*at != NULL && (*at)->request != id) at = &(*at)->next;
  if (*at == NULL) return;
  if (ok) (*at)->request = 0;
  else give_up_kept(hub, at);
}

/* No object of this client has the name any more, or another one has it. */
static void lose_name(cuda_ipc_hub *hub, const char *name) {
  for (struct kept **at = &hub->kept; *at != NULL;)
    if (strcmp((*at)->name, name) == 0) give_up_kept(hub, at);
    else at = &(*at)->next;
}

/* Reads until the answer of this request comes. Returns 1 with it, 0 if the time is up, or -1. */
static int await_reply(cuda_ipc_hub *hub, int64_t wanted, int64_t deadline,
                       cuda_ipc_error *error) {
  for (;;) {
    bool damaged = false;
    int64_t version, id, lease;
    int received = receive_packet(hub, deadline, &damaged, error);
    if (received <= 0) return received;
    struct json *json = &hub->json;
    int v = member(json, 0, "v");
    if (!is_type(json, v, "-0123456789")) return end_with(hub, "INVALID_MESSAGE", error);
    if (!integer(json, v, CUDA_IPC_PROTOCOL_VERSION, CUDA_IPC_PROTOCOL_VERSION, &version)) {
      close_received(hub);
      hub->gone = true;
      return fail(error, "PROTOCOL_MISMATCH", "The hub at %s speaks version %.*s, this client %d",
                  hub->path, json->tokens[v].end - json->tokens[v].start,
                  json->text + json->tokens[v].start, CUDA_IPC_PROTOCOL_VERSION);
    }
    bool ok = is_true(json, member(json, 0, "ok"));
    int told = member(json, 0, "error");
    hub->result = member(json, 0, "result");
    if (!integer(json, member(json, 0, "id"), ok ? 1 : 0, INTEGER_MAX, &id) ||
        !is_type(json, member(json, 0, "ok"), "tf") || (ok && hub->result < 0) ||
        (!ok && (!is_type(json, member(json, told, "code"), "\"") ||
                 !is_type(json, member(json, told, "message"), "\""))) ||
        (id != wanted && id != 0 && (id > hub->last_id || hub->late == 0)))
      return end_with(hub, "INVALID_MESSAGE", error);
    bool grants = ok && integer(json, member(json, hub->result, "lease"), 1, INTEGER_MAX, &lease);
    if (id != wanted && id != 0) {
      /* The late answer to a request that was given up. */
      hub->late--;
      close_received(hub);
      if (grants) give_up_lease(hub, lease);
      else settle_kept(hub, id, ok);
      continue;
    }
    if (damaged) {
      close_received(hub);
      if (grants) give_up_lease(hub, lease);
      return fail(error, "TOO_MANY_FDS", "The descriptors of an answer were lost. Too many files "
                                         "are open in this process");
    }
    if (ok) return 1;
    close_received(hub);
    read_error(json, told, error);
    if (id == 0) hub->gone = true;
    return -1;
  }
}

/* Sends the request that was begun, and waits for its answer. The descriptors stay the caller's. */
static int exchange(cuda_ipc_hub *hub, const int *fds, int fd_count, int64_t deadline,
                    cuda_ipc_error *error) {
  int64_t id = hub->last_id;
  if (hub->gone) return hub_gone(hub, error);
  if (send_request(hub, fds, fd_count, deadline, error) != 0) return -1;
  int answered = await_reply(hub, id, deadline, error);
  if (answered != 0) return answered < 0 ? -1 : 0;
  hub->late++;
  return fail(error, "TIMEOUT", "The hub at %s did not answer", hub->path);
}

/* As `exchange`, for requests that bring no descriptors. */
static int request(cuda_ipc_hub *hub, cuda_ipc_error *error) {
  int status = exchange(hub, NULL, 0, deadline_in(hub->timeout_ms), error);
  if (status == 0) close_received(hub);
  return status;
}

static bool is_trusted(uid_t uid) {
  const char *configured = getenv("CUDA_IPC_HUB_UID");
  char *end;
  if (uid == geteuid() || uid == 0) return true;
  if (configured == NULL || *configured == 0) return false;
  unsigned long wanted = strtoul(configured, &end, 10);
  return *end == 0 && wanted == uid;
}

static int path_too_long(size_t length, cuda_ipc_error *error) {
  return fail(error, "SOCKET_PATH_TOO_LONG",
              "The socket path has %zu bytes, at most %d are possible", length,
              CUDA_IPC_SOCKET_PATH_BYTES_MAX);
}

/* Writes the path of the usual socket. */
static int find_socket(char *path, size_t room, cuda_ipc_error *error) {
  const char *set = getenv("CUDA_IPC_SOCKET"), *run = getenv("XDG_RUNTIME_DIR");
  const char *temporary = getenv("TMPDIR");
  struct stat facts;
  int length;
  if (set != NULL && *set != 0) length = snprintf(path, room, "%s", set);
  else if (run != NULL && *run == '/' && stat(run, &facts) == 0 && facts.st_uid == geteuid())
    length = snprintf(path, room, "%s/cuda-ipc/hub.sock", run);
  else
    length = snprintf(path, room, "%s/cuda-ipc-%u/hub.sock",
                      temporary != NULL && *temporary != 0 ? temporary : "/tmp", geteuid());
  if ((size_t)length < room) return 0;
  return path_too_long((size_t)length, error);
}

/* The absolute path, which the caller frees. All clients hash the same one for the twin, so "." and
 * ".." go, and slashes that mean nothing. No link is followed. NULL with errno. */
static char *resolve_path(const char *given) {
  char *path = malloc(PATH_MAX + strlen(given) + 2);
  if (path == NULL) return NULL;
  *path = 0;
  if (*given != '/' && getcwd(path, PATH_MAX) == NULL) {
    int reason = errno;
    free(path);
    errno = reason;
    return NULL;
  }
  strcat(strcat(path, "/"), given);
  char *to = path;
  for (const char *from = path; *from != 0;) {
    while (*from == '/') from++;
    size_t length = strcspn(from, "/");
    if (length == 2 && memcmp(from, "..", 2) == 0) {
      while (to > path && *--to != '/') continue;
    } else if (length > 0 && (length > 1 || *from != '.')) {
      *to++ = '/';
      memmove(to, from, length);
      to += length;
    }
    from += length;
  }
  if (to == path) *to++ = '/';
  *to = 0;
  return path;
}

/* A URL would be taken for a path, and the message would be about its folder. */
static int check_not_url(const char *path, cuda_ipc_error *error) {
  size_t scheme = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
  if (scheme == 0 || strncmp(path + scheme, "://", 3) != 0) return 0;
  return fail(error, "UNSUPPORTED", "Cannot use the socket %s: it is a URL. Set CUDA_IPC_SOCKET to "
      "the path of a socket file. Bridges reach hubs of other machines.", path);
}

/* Writes the absolute path of this socket, or of the usual one. */
static int choose_path(cuda_ipc_hub *hub, const char *socket_path, cuda_ipc_error *error) {
  char usual[PATH_MAX];
  if (socket_path == NULL || *socket_path == 0) {
    if (find_socket(usual, sizeof usual, error) != 0) return -1;
    socket_path = usual;
  }
  if (check_not_url(socket_path, error) != 0) return -1;
  char *path = resolve_path(socket_path);
  if (path == NULL) return fail_errno(error, "find the socket", socket_path);
  size_t length = strlen(path);
  if (length < sizeof hub->path) strcpy(hub->path, path);
  free(path);
  return length < sizeof hub->path ? 0 : path_too_long(length, error);
}

/* Whoever can write to the folder could pose as the hub. Returns -1 if the folder is missing, and
   UNSAFE if it is not to be trusted. */
#define UNSAFE -2
static int check_folder(const char *path, cuda_ipc_error *error) {
  char folder[CUDA_IPC_SOCKET_PATH_BYTES_MAX + 1];
  struct stat facts;
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash == NULL) strcpy(folder, ".");
  else if (slash == folder) folder[1] = 0;
  else *slash = 0;
  if (lstat(folder, &facts) != 0)
    return fail(error, "HUB_UNAVAILABLE", "No hub listens at %s: its folder: %s. Start one with "
                                          "`cuda-ipc hub serve`", path, strerror(errno));
  if (S_ISDIR(facts.st_mode) && is_trusted(facts.st_uid) && (facts.st_mode & 022) == 0) return 0;
  fail(error, "UNSAFE_RUNTIME_DIR",
       "Cannot trust the folder %s: it is owned by user %u with mode %o", folder, facts.st_uid,
       facts.st_mode & 07777);
  return UNSAFE;
}

/* The twin of the hub's socket, which src/os/socket-twin.ts describes. False without /proc. */
static bool twin_name(const char *path, char *name, size_t room) {
  struct stat mounts;
  uint64_t hash = 0xcbf29ce484222325;
  if (stat("/proc/self/ns/mnt", &mounts) != 0) return false;
  for (; *path != 0; path++) hash = (hash ^ (unsigned char)*path) * 0x100000001b3;
  snprintf(name, room, "cuda-ipc/%" PRIu64 "/%016" PRIx64, (uint64_t)mounts.st_ino, hash);
  return true;
}

/* Whether a process has the twin, whether it listens or not. */
static bool is_twin_held(const char *path) {
  char name[64], end[sizeof name + 4], line[512];
  FILE *file = twin_name(path, name, sizeof name) ? fopen("/proc/net/unix", "re") : NULL;
  if (file == NULL) return false;
  snprintf(end, sizeof end, " @%s\n", name);
  bool is_held = false;
  while (!is_held && fgets(line, sizeof line, file) != NULL) is_held = strstr(line, end) != NULL;
  fclose(file);
  return is_held;
}

/* Whether a hub is about to listen, if none does: one that starts takes the lock first, and one
   whose files were removed has the twin. */
static bool is_starting(const char *path) {
  char lock[CUDA_IPC_SOCKET_PATH_BYTES_MAX + sizeof ".lock"];
  snprintf(lock, sizeof lock, "%s.lock", path);
  int fd = open(lock, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  bool is_locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0;
  if (fd >= 0) close(fd);
  return is_locked || is_twin_held(path);
}

static bool is_peer_trusted(int fd) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && is_trusted(peer.uid);
}

/* A socket connected to the path, or to a name that is no path. Returns -1 with errno. */
static int dial_to(const char *name, bool is_path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = offsetof(struct sockaddr_un, sun_path) + strlen(name) + 1;
  memcpy(address.sun_path + (is_path ? 0 : 1), name, strlen(name));
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, (socklen_t)length) == 0) return fd;
  int reason = errno;
  close(fd);
  errno = reason;
  return -1;
}

/* Whether a hub that has lost its folder listens at the twin. */
static bool dial_twin(cuda_ipc_hub *hub) {
  char name[64];
  hub->fd = twin_name(hub->path, name, sizeof name) ? dial_to(name, false) : -1;
  if (hub->fd < 0 || is_peer_trusted(hub->fd)) return hub->fd >= 0;
  close(hub->fd);
  return false;
}

/* A connected socket whose hub is trusted. Returns 1, or 0 to try again, or -1. */
static int dial(cuda_ipc_hub *hub, bool is_patient, cuda_ipc_error *error) {
  int folder = check_folder(hub->path, error);
  hub->fd = folder == 0 ? dial_to(hub->path, true) : -1;
  if (hub->fd >= 0) {
    if (is_peer_trusted(hub->fd)) return 1;
    close(hub->fd);
    return fail(error, "UNTRUSTED_PEER", "The hub at %s runs as another user", hub->path);
  }
  int reason = folder == 0 ? errno : ENOENT;
  if (reason == EAGAIN || reason == EINTR) return 0;
  if (reason != ENOENT && reason != ECONNREFUSED) {
    errno = reason;
    return fail_errno(error, "connect to", hub->path);
  }
  if (dial_twin(hub)) return 1;
  if (folder == UNSAFE) return -1;
  if (is_patient && is_starting(hub->path)) return 0;
  if (folder != 0) return -1;
  return fail(error, "HUB_UNAVAILABLE",
              "No hub listens at %s. Start one with `cuda-ipc hub serve`", hub->path);
}

cuda_ipc_hub *cuda_ipc_connect(const char *socket_path, const char *program, int64_t timeout_ms,
                               cuda_ipc_error *error) {
  int64_t deadline = deadline_in(timeout_ms);
  cuda_ipc_hub *hub = calloc(1, sizeof *hub);
  if (hub == NULL) return fail(error, "OUT_OF_MEMORY", "Cannot connect: no memory"), NULL;
  hub->timeout_ms = timeout_ms;
  if (choose_path(hub, socket_path, error) != 0) return free(hub), NULL;
  int64_t patience = deadline_in(3000);
  for (int64_t rest = 1000;; rest = rest < 64000 ? 2 * rest : rest) {
    int dialled = dial(hub, now_us() < patience, error);
    if (dialled < 0) break;
    if (dialled > 0) {
      cuda_ipc_error found = {"", ""};
      /* From here on a receive waits, until its limit. */
      fcntl(hub->fd, F_SETFL, 0);
      hub->receive_ms = 0;
      hub->gone = false;
      hub->json.count = 0;
      hub->late = 0;
      begin(hub, "hello");
      add(&hub->sent, ",\"client\":{\"version\":\"C\",\"program\":");
      char shown[129];
      snprintf(shown, sizeof shown, "%s", program == NULL ? "a program in C" : program);
      add_string(&hub->sent, shown);
      add(&hub->sent, "}}");
      if (exchange(hub, NULL, 0, deadline, &found) == 0) {
        int64_t session;
        close_received(hub);
        if (integer(&hub->json, member(&hub->json, hub->result, "session"), 1, INTEGER_MAX,
                    &session))
          return hub;
        fail(&found, "INVALID_MESSAGE", "The hub at %s answered without a session", hub->path);
      }
      close(hub->fd);
      /* It hung up without a word: it had no room, or has just ended. */
      bool is_silent = strcmp(found.code, "HUB_GONE") == 0 && hub->json.count == 0;
      if (!is_silent) {
        if (error != NULL) *error = found;
        break;
      }
    }
    if (now_us() > deadline) {
      fail(error, "TIMEOUT", "Cannot connect to the hub at %s: it does not listen yet, or admits no "
                             "more clients", hub->path);
      break;
    }
    pause_us(rest);
  }
  free(hub->json.tokens);
  free(hub);
  return NULL;
}

void cuda_ipc_disconnect(cuda_ipc_hub *hub) {
  if (hub == NULL) return;
  if (!hub->gone) {
    add(begin(hub, "bye"), "}");
    request(hub, NULL);
  }
  close(hub->fd);
  for (struct kept *kept = hub->kept, *next; kept != NULL; kept = next) {
    next = kept->next;
    free(kept);
  }
  free(hub->json.tokens);
  free(hub);
}

/* ---- GPU memory: libcuda, opened when it is needed ---- */

struct cuda_location { int type, id; };
struct cuda_access { struct cuda_location location; int flags; };
struct cuda_properties {
  int type, handle_types;
  struct cuda_location location;
  void *windows;
  unsigned char flags[8];
};
#define CUDA_DEVICE 1
#define CUDA_PINNED 1
#define CUDA_FILE_DESCRIPTOR 1

static struct {
  int (*Init)(unsigned);
  int (*DeviceGetCount)(int *);
  int (*DeviceGet)(int *, int);
  int (*DeviceGetUuid_v2)(unsigned char *, int);
  int (*DevicePrimaryCtxRetain)(void **, int);
  int (*DevicePrimaryCtxRelease_v2)(int);
  int (*CtxPushCurrent_v2)(void *);
  int (*CtxPopCurrent_v2)(void **);
  int (*MemImportFromShareableHandle)(uint64_t *, void *, int);
  int (*MemExportToShareableHandle)(void *, uint64_t, int, uint64_t);
  int (*MemGetAllocationGranularity)(size_t *, const struct cuda_properties *, int);
  int (*MemCreate)(uint64_t *, size_t, const struct cuda_properties *, uint64_t);
  int (*MemRelease)(uint64_t);
  int (*MemAddressReserve)(uint64_t *, size_t, size_t, uint64_t, uint64_t);
  int (*MemAddressFree)(uint64_t, size_t);
  int (*MemMap)(uint64_t, size_t, size_t, uint64_t, uint64_t);
  int (*MemUnmap)(uint64_t, size_t);
  int (*MemSetAccess)(uint64_t, size_t, const struct cuda_access *, size_t);
  int (*MemcpyDtoH_v2)(void *, uint64_t, size_t);
  int (*MemcpyHtoD_v2)(uint64_t, const void *, size_t);
  int (*StreamSynchronize)(void *);
  int (*GetErrorName)(int, const char **);
} cuda;

static bool find_cuda(void *library, const char *name, void *function) {
  char symbol[64];
  snprintf(symbol, sizeof symbol, "cu%s", name);
  void *found = dlsym(library, symbol);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

static int open_cuda(cuda_ipc_error *error) {
  static bool is_open = false;
  if (is_open) return 0;
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) return fail(error, "DRIVER_NOT_FOUND", "Cannot open libcuda: %s", dlerror());
#define FIND(name) && find_cuda(library, #name, &cuda.name)
  if (!(true FIND(Init) FIND(DeviceGetCount) FIND(DeviceGet) FIND(DeviceGetUuid_v2)
        FIND(DevicePrimaryCtxRetain) FIND(DevicePrimaryCtxRelease_v2) FIND(CtxPushCurrent_v2)
        FIND(CtxPopCurrent_v2) FIND(MemImportFromShareableHandle) FIND(MemExportToShareableHandle)
        FIND(MemGetAllocationGranularity) FIND(MemCreate) FIND(MemRelease) FIND(MemAddressReserve)
        FIND(MemAddressFree) FIND(MemMap) FIND(MemUnmap) FIND(MemSetAccess) FIND(MemcpyDtoH_v2)
        FIND(MemcpyHtoD_v2) FIND(StreamSynchronize) FIND(GetErrorName)))
    return fail(error, "DRIVER_TOO_OLD", "libcuda lacks a function that shared memory needs");
  int status = cuda.Init(0);
  if (status != 0) return fail(error, "CUDA_ERROR", "cuInit failed with %d", status);
  is_open = true;
  return 0;
}

static int fail_cuda(cuda_ipc_error *error, const char *call, int status) {
  const char *name = NULL;
  cuda.GetErrorName(status, &name);
  return fail(error, status == 2 ? "OUT_OF_MEMORY" : "CUDA_ERROR", "%s: %s (%d)", call,
              name == NULL ? "unknown error" : name, status);
}

/* The UUID as descriptors have it, without "GPU-" or "MIG-". */
static void write_uuid(const unsigned char bytes[16], char text[37]) {
  for (int i = 0; i < 16; i++) {
    text += sprintf(text, "%02x", bytes[i]);
    if (i == 3 || i == 5 || i == 7 || i == 9) *text++ = '-';
  }
  *text = 0;
}

/* ---- memory ---- */

struct memory {
  uint8_t *cpu; /* or, on a GPU, NULL and `device` */
  uint64_t device;
  size_t bytes;
  int ordinal;
  void *context;
};

static void unmap_memory(struct memory *memory) {
  if (memory->cpu != NULL) munmap(memory->cpu, memory->bytes);
  if (memory->device != 0) {
    cuda.CtxPushCurrent_v2(memory->context);
    cuda.MemUnmap(memory->device, memory->bytes);
    cuda.MemAddressFree(memory->device, memory->bytes);
    cuda.CtxPopCurrent_v2(&(void *){NULL});
    cuda.DevicePrimaryCtxRelease_v2(memory->ordinal);
  }
  *memory = (struct memory){.cpu = NULL};
}

/* Copies out of memory, or into it: `cpu` and `device` are where. */
static int copy_out(const struct memory *memory, const void *cpu, uint64_t device, void *to,
                    size_t bytes, cuda_ipc_error *error) {
  if (bytes == 0) return 0;
  if (memory->cpu != NULL) return memcpy(to, cpu, bytes), 0;
  cuda.CtxPushCurrent_v2(memory->context);
  int status = cuda.MemcpyDtoH_v2(to, device, bytes);
  cuda.CtxPopCurrent_v2(&(void *){NULL});
  return status == 0 ? 0 : fail_cuda(error, "cuMemcpyDtoH", status);
}

static int copy_in(const struct memory *memory, void *cpu, uint64_t device, const void *from,
                   size_t bytes, cuda_ipc_error *error) {
  if (bytes == 0) return 0;
  if (memory->cpu != NULL) return memcpy(cpu, from, bytes), 0;
  cuda.CtxPushCurrent_v2(memory->context);
  int status = cuda.MemcpyHtoD_v2(device, from, bytes);
  /* The copy returns when it has read `from`, and others may look before it has written it all. */
  if (status == 0) status = cuda.StreamSynchronize(NULL);
  cuda.CtxPopCurrent_v2(&(void *){NULL});
  return status == 0 ? 0 : fail_cuda(error, "cuMemcpyHtoD", status);
}

/* Whether it is a memory file with these seals, in which no page is missing or too many: a resize,
 * or a hole in huge pages, would end this process. The seals first: for them the kernel asks
 * nobody. */
static bool is_memory_file(int fd, int seals, struct stat *facts) {
  struct statfs system;
  int found = fcntl(fd, F_GET_SEALS);
  return found >= 0 && (found & seals) == seals && fstatfs(fd, &system) == 0 &&
         (uint32_t)system.f_type != HUGETLBFS && fstat(fd, facts) == 0 &&
         facts->st_blocks * 512 <= (facts->st_size + facts->st_blksize - 1) / facts->st_blksize *
                                      facts->st_blksize;
}

static bool is_bell(int fd) {
  char link[40], target[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, target, sizeof target);
  return length == 20 && memcmp(target, "anon_inode:[eventfd]", 20) == 0;
}

static int fail_bell(const char *name, cuda_ipc_error *error) {
  return fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": a bell is no eventfd", name);
}

/* Maps a memory file of at least (or exactly) so many bytes. */
static int map_file(struct memory *memory, int fd, int64_t bytes, bool exactly, bool read_only,
                    const char *name, cuda_ipc_error *error) {
  struct stat facts;
  if (!is_memory_file(fd, F_SEAL_SHRINK | F_SEAL_GROW, &facts))
    return fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": its memory is no memory file that "
                "is sealed against resizing", name);
  if (facts.st_size < bytes || (exactly && facts.st_size != bytes))
    return fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": its memory has %lld bytes, "
                "wanted %lld", name, (long long)facts.st_size, (long long)bytes);
  void *mapped = mmap(NULL, (size_t)bytes, read_only ? PROT_READ : PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED && !read_only && (errno == EACCES || errno == EPERM))
    return fail(error, "READ_ONLY", "Cannot write \"%s\": its memory came for reading", name);
  if (mapped == MAP_FAILED) return fail_errno(error, "map", name);
  *memory = (struct memory){.cpu = mapped, .bytes = (size_t)bytes};
  return 0;
}

/* Maps a handle, which it releases in any case, with the device's context current. */
static int map_handle(struct memory *memory, uint64_t handle, bool read_only,
                      cuda_ipc_error *error) {
  struct cuda_access access = {{CUDA_DEVICE, memory->ordinal}, read_only ? 1 : 3};
  const char *call = "cuMemAddressReserve";
  int status = cuda.MemAddressReserve(&memory->device, memory->bytes, 0, 0, 0);
  if (status == 0) {
    call = "cuMemMap";
    status = cuda.MemMap(memory->device, memory->bytes, 0, handle, 0);
    if (status == 0) {
      call = "cuMemSetAccess";
      status = cuda.MemSetAccess(memory->device, memory->bytes, &access, 1);
      if (status != 0) cuda.MemUnmap(memory->device, memory->bytes);
    }
    if (status != 0) cuda.MemAddressFree(memory->device, memory->bytes);
  }
  cuda.MemRelease(handle);
  if (status == 0) return 0;
  memory->device = 0;
  return fail_cuda(error, call, status);
}

/* Makes the context of a device current. `leave_device` undoes it, and keeps it for used memory. */
static int enter_device(struct memory *memory, int ordinal, cuda_ipc_error *error) {
  int status = cuda.DevicePrimaryCtxRetain(&memory->context, ordinal);
  memory->ordinal = ordinal;
  if (status != 0) return fail_cuda(error, "cuDevicePrimaryCtxRetain", status);
  cuda.CtxPushCurrent_v2(memory->context);
  return 0;
}

static void leave_device(struct memory *memory) {
  cuda.CtxPopCurrent_v2(&(void *){NULL});
  if (memory->device == 0) cuda.DevicePrimaryCtxRelease_v2(memory->ordinal);
}

static int map_gpu(struct memory *memory, int fd, int64_t bytes, const char *uuid, bool read_only,
                   cuda_ipc_error *error) {
  int count = 0, device = -1;
  uint64_t handle;
  if (open_cuda(error) != 0) return -1;
  cuda.DeviceGetCount(&count);
  for (int i = 0; i < count && device < 0; i++) {
    unsigned char found[16];
    char text[37];
    int candidate;
    if (cuda.DeviceGet(&candidate, i) != 0) continue;
    if (cuda.DeviceGetUuid_v2(found, candidate) != 0) continue;
    write_uuid(found, text);
    if (strlen(uuid) == 40 && strcasecmp(text, uuid + 4) == 0) device = candidate;
  }
  if (device < 0)
    return fail(error, "DEVICE_NOT_FOUND", "%s is not a device of this process", uuid);
  *memory = (struct memory){.bytes = (size_t)bytes};
  if (enter_device(memory, device, error) != 0) return -1;
  int result = -1;
  int status = cuda.MemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
      CUDA_FILE_DESCRIPTOR);
  if (status == 0) result = map_handle(memory, handle, read_only, error);
  else fail_cuda(error, "cuMemImportFromShareableHandle", status);
  leave_device(memory);
  return result;
}

/* Takes all pages of a memory file, in pieces: a signal undoes only the last one. */
static int take_pages(int fd, int64_t bytes) {
  for (int64_t at = 0; at < bytes;) {
    int64_t piece = bytes - at < TAKEN_AT_A_TIME ? bytes - at : TAKEN_AT_A_TIME;
    int failure = posix_fallocate(fd, at, piece);
    if (failure == 0) at += piece;
    else if (failure != EINTR) return errno = failure == ENOSPC ? ENOMEM : failure, -1;
  }
  return 0;
}

/* A sealed memory file: a resize would end everybody who has mapped it. */
static int create_file(int64_t bytes, bool preallocate, const char *name, cuda_ipc_error *error) {
  int fd = memfd_create("cuda-ipc", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd >= 0 && ftruncate(fd, bytes) == 0 && (!preallocate || take_pages(fd, bytes) == 0) &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    return fd;
  fail_errno(error, "create", name);
  if (fd >= 0) close(fd);
  return -1;
}

/* The part of a descriptor that describes its memory. */
struct location { bool gpu; char uuid[64]; int64_t byte_length, allocation; };

static int create_gpu(struct memory *memory, struct location *location, int ordinal, int *fd,
                      cuda_ipc_error *error) {
  struct cuda_properties wanted = {.type = CUDA_PINNED, .handle_types = CUDA_FILE_DESCRIPTOR};
  unsigned char uuid[16];
  size_t granularity = 0;
  uint64_t handle;
  int device, result = -1;
  if (open_cuda(error) != 0) return -1;
  if (cuda.DeviceGet(&device, ordinal) != 0 || cuda.DeviceGetUuid_v2(uuid, device) != 0)
    return fail(error, "DEVICE_NOT_FOUND", "cuda:%d is not a device of this process", ordinal);
  strcpy(location->uuid, "GPU-");
  write_uuid(uuid, location->uuid + 4);
  if (enter_device(memory, device, error) != 0) return -1;
  wanted.location = (struct cuda_location){CUDA_DEVICE, device};
  int status = cuda.MemGetAllocationGranularity(&granularity, &wanted, 0);
  if (status == 0) {
    int64_t unit = (int64_t)granularity;
    location->allocation = (location->byte_length + unit - 1) / unit * unit;
    memory->bytes = (size_t)location->allocation;
    status = cuda.MemCreate(&handle, memory->bytes, &wanted, 0);
  }
  if (status != 0) fail_cuda(error, "cuMemCreate", status);
  else {
    status = cuda.MemExportToShareableHandle(fd, handle, CUDA_FILE_DESCRIPTOR, 0);
    if (status != 0) {
      cuda.MemRelease(handle);
      fail_cuda(error, "cuMemExportToShareableHandle", status);
    } else {
      fcntl(*fd, F_SETFD, FD_CLOEXEC);
      result = map_handle(memory, handle, false, error);
      if (result != 0) close(*fd);
    }
  }
  leave_device(memory);
  return result;
}

/* Allocates and maps memory. On success *fd is the caller's to close. */
static int create_memory(struct memory *memory, struct location *location, const char *device,
                         bool preallocate, int *fd, const char *name, cuda_ipc_error *error) {
  int ordinal, end = 0;
  *memory = (struct memory){.cpu = NULL};
  if (location->byte_length < 1) location->byte_length = 1;
  if (device == NULL || strcmp(device, "host") == 0) {
    location->allocation = (location->byte_length + PAGE - 1) / PAGE * PAGE;
    *fd = create_file(location->allocation, preallocate, name, error);
    if (*fd < 0) return -1;
    if (map_file(memory, *fd, location->allocation, true, false, name, error) == 0) return 0;
    close(*fd);
    return -1;
  }
  location->gpu = true;
  if (sscanf(device, "cuda:%d%n", &ordinal, &end) == 1 && device[end] == 0 && ordinal >= 0)
    return create_gpu(memory, location, ordinal, fd, error);
  return fail(error, "INVALID_DEVICE", "Cannot create \"%s\": \"%s\" is not host or cuda:N", name,
      device);
}

/* ---- layouts ---- */

static const struct { const char *name; int bytes, alignment; } dtypes[] = {
#define DTYPE(name, bytes, alignment) {#name, bytes, alignment},
    CUDA_IPC_DTYPES(DTYPE)
};

static int find_dtype(const char *name) {
  for (size_t i = 0; name != NULL && i < sizeof dtypes / sizeof *dtypes; i++)
    if (strcmp(dtypes[i].name, name) == 0) return (int)i;
  return -1;
}

/* Whether a product or sum stays below 2^53, as all numbers of the protocol do. */
static bool multiply(int64_t one, int64_t other, int64_t *result) {
  return !__builtin_mul_overflow(one, other, result) && *result <= INTEGER_MAX &&
         *result >= -INTEGER_MAX;
}
static bool plus(int64_t one, int64_t other, int64_t *result) {
  return !__builtin_add_overflow(one, other, result) && *result <= INTEGER_MAX &&
         *result >= -INTEGER_MAX;
}

/* Fills strides for a row-major array, and the counts. False if it is too large. */
static bool pack(cuda_ipc_array *array) {
  cuda_ipc_layout *layout = &array->layout;
  int64_t count = 1;
  for (int axis = layout->rank - 1; axis >= 0; axis--) {
    layout->strides[axis] = count;
    if (layout->shape[axis] < 0 || !multiply(count, layout->shape[axis], &count)) return false;
  }
  array->element_count = count;
  array->contiguous = true;
  return multiply(count, array->item_bytes, &count);
}

static int set_layout(cuda_ipc_array *array, const char *name, const char *dtype, int rank,
                      const int64_t *shape, int rank_max, cuda_ipc_error *error) {
  int found = find_dtype(dtype);
  if (found < 0)
    return fail(error, "UNSUPPORTED_DTYPE", "Cannot create \"%s\": there is no dtype \"%s\"", name,
                dtype == NULL ? "" : dtype);
  if (rank < 0 || rank > rank_max || (rank > 0 && shape == NULL))
    return fail(error, "INVALID_DESCRIPTOR", "Cannot create \"%s\": rank is %d, at most %d", name,
                rank, rank_max);
  strcpy(array->layout.dtype, dtype);
  array->layout.rank = rank;
  array->item_bytes = dtypes[found].bytes;
  for (int axis = 0; axis < rank; axis++) array->layout.shape[axis] = shape[axis];
  if (pack(array)) return 0;
  return fail(error, "INVALID_DESCRIPTOR",
      "Cannot create \"%s\": a length of its shape is negative, "
              "or it is too large", name);
}

/* The dtype of a layout: its number, -1 if it is unknown here, or -2 if it is no text. */
static int read_dtype(const struct json *json, int at) {
  int dtype = member(json, at, "dtype");
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (is_text(json, dtype, dtypes[i].name)) return (int)i;
  return is_type(json, dtype, "\"") ? -1 : -2;
}

static int fail_layout(const struct json *json, int at, const char *name, cuda_ipc_error *error) {
  bool is_unknown = read_dtype(json, at) == -1;
  return fail(error, is_unknown ? "UNSUPPORTED_DTYPE" : "INVALID_DESCRIPTOR", "Cannot open \"%s\": %s",
              name, is_unknown ? "it has an unknown dtype" : "its elements leave its memory");
}

/* "What to check": each element lies in the first byte_length bytes. */
static bool read_layout(const struct json *json, int at, int64_t byte_length,
                        cuda_ipc_array *array, int64_t *offset) {
  cuda_ipc_layout *layout = &array->layout;
  int shape = member(json, at, "shape"), strides = member(json, at, "strides");
  int dtype = read_dtype(json, at);
  if (dtype < 0 || shape < 0 || strides < 0 || json->tokens[shape].type != '[' ||
      json->tokens[strides].type != '[' || json->tokens[shape].count > CUDA_IPC_DIMENSIONS_MAX ||
      json->tokens[strides].count != json->tokens[shape].count ||
      !integer(json, member(json, at, "byteOffset"), 0, byte_length, offset) ||
      *offset % dtypes[dtype].alignment != 0)
    return false;
  strcpy(layout->dtype, dtypes[dtype].name);
  layout->rank = json->tokens[shape].count;
  array->item_bytes = dtypes[dtype].bytes;
  array->element_count = 1;
  bool is_empty = false;
  int length_at = shape + 1, stride_at = strides + 1;
  for (int axis = 0; axis < layout->rank; axis++) {
    if (!integer(json, length_at, 0, INTEGER_MAX, &layout->shape[axis]) ||
        !integer(json, stride_at, -INTEGER_MAX, INTEGER_MAX, &layout->strides[axis]))
      return false;
    length_at = json->tokens[length_at].next;
    stride_at = json->tokens[stride_at].next;
    if (layout->shape[axis] == 0) is_empty = true;
  }
  int64_t low = 0, high = 1, count = 1, packed = 1, reach;
  array->contiguous = true;
  for (int axis = 0; is_empty && axis < layout->rank; axis++)
    if (layout->shape[axis] != 0 && !multiply(count, layout->shape[axis], &count)) return false;
  if (is_empty) return array->element_count = 0, true;
  for (int axis = layout->rank - 1; axis >= 0; axis--) {
    int64_t length = layout->shape[axis], stride = layout->strides[axis];
    if (!multiply(count, length, &count) || !multiply(length - 1, stride, &reach) ||
        !plus(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
      return false;
    if (length != 1 && stride != packed) array->contiguous = false;
    packed *= length;
  }
  array->element_count = count;
  return multiply(count, array->item_bytes, &count) && count <= byte_length &&
         multiply(low, array->item_bytes, &low) && multiply(high, array->item_bytes, &high) &&
         *offset + low >= 0 && high <= byte_length - *offset;
}

/* ---- objects: a lease, and its memory ---- */

struct cuda_ipc_lease {
  cuda_ipc_hub *hub;
  int64_t lease, object;
  struct memory memory;
  char name[CUDA_IPC_NAME_BYTES_MAX + 1];
  bool passes_name; /* it takes over a name, which only this lease keeps */
  bool may_have_name; /* nobody has waited for the hub's answer to its `publish` */
};

/* Reads the numbers of a lease from the latest answer. */
static int read_lease(cuda_ipc_hub *hub, const char *name, struct cuda_ipc_lease *lease,
                      cuda_ipc_error *error) {
  const struct json *json = &hub->json;
  *lease = (struct cuda_ipc_lease){.hub = hub};
  snprintf(lease->name, sizeof lease->name, "%s", name);
  bool grants = integer(json, member(json, hub->result, "lease"), 1, INTEGER_MAX, &lease->lease);
  if (grants && integer(json, member(json, hub->result, "object"), 1, INTEGER_MAX, &lease->object))
    return 0;
  close_received(hub);
  if (grants) give_up_lease(hub, lease->lease);
  return fail(error, "INVALID_MESSAGE", "The hub answered without a lease on \"%s\"", name);
}

static void begin_publish(cuda_ipc_hub *hub, int64_t object) {
  add(begin(hub, "publish"), ",\"object\":%lld}", (long long)object);
}

/* Without this lease, nothing might have the name. The hub answers that the name has passed to its
 * object, or that it never will. */
static void keep_lease(const struct cuda_ipc_lease *lease) {
  cuda_ipc_hub *hub = lease->hub;
  struct kept *kept = calloc(1, sizeof *kept);
  if (kept == NULL) return;
  begin_publish(hub, lease->object);
  *kept = (struct kept){.next = hub->kept, .lease = lease->lease, .request = hub->last_id};
  strcpy(kept->name, lease->name);
  hub->kept = kept;
  if (send_request(hub, NULL, 0, deadline_in(hub->timeout_ms), NULL) == 0) hub->late++;
}

static void end_lease(struct cuda_ipc_lease *lease) {
  unmap_memory(&lease->memory);
  if (lease->hub->gone) return;
  if (lease->may_have_name) {
    keep_lease(lease);
    return;
  }
  begin_release(lease->hub, lease->lease);
  request(lease->hub, NULL);
}

static void add_device(cuda_ipc_hub *hub, const struct location *location) {
  if (location->gpu)
    add(&hub->sent, "\"device\":{\"kind\":\"cuda\",\"uuid\":\"%s\"},\"mechanism\":\"vmm\"",
        location->uuid);
  else add(&hub->sent, "\"device\":{\"kind\":\"host\"},\"mechanism\":\"memfd\"");
  add(&hub->sent, ",\"byteLength\":%lld,\"allocationByteLength\":%lld",
      (long long)location->byte_length, (long long)location->allocation);
}

static void begin_create(cuda_ipc_hub *hub, const char *name, bool pinned, int replace,
                         const struct location *location) {
  hub->passes_name = replace != CUDA_IPC_REPLACE_NONE && !pinned;
  begin(hub, "create");
  add(&hub->sent, ",\"name\":");
  add_string(&hub->sent, name);
  if (replace != CUDA_IPC_REPLACE_NONE)
    add(&hub->sent, ",\"replace\":%s", replace == CUDA_IPC_REPLACE_ANY ? "\"any\"" : "true");
  add(&hub->sent, ",\"lifetime\":\"%s\",\"descriptor\":{\"version\":1,",
      pinned ? "pinned" : "held");
  add_device(hub, location);
  add(&hub->sent, ",\"content\":");
}

static void add_shape(struct text *text, const char *key, const int64_t *values, int rank) {
  add(text, ",\"%s\":[", key);
  for (int i = 0; i < rank; i++) add(text, "%s%lld", i == 0 ? "" : ",", (long long)values[i]);
  add(text, "]");
}

static void add_layout(struct text *text, const cuda_ipc_layout *layout, int64_t offset) {
  add(text, "\"dtype\":\"%s\"", layout->dtype);
  add_shape(text, "shape", layout->shape, layout->rank);
  add_shape(text, "strides", layout->strides, layout->rank);
  add(text, ",\"byteOffset\":%lld", (long long)offset);
}

/* Ends the request of `begin_create` and sends it. */
static int finish_create(cuda_ipc_hub *hub, const char *name, const int *fds, int fd_count,
                         struct cuda_ipc_lease *lease, cuda_ipc_error *error) {
  add(&hub->sent, "}}");
  if (exchange(hub, fds, fd_count, deadline_in(hub->timeout_ms), error) != 0) return -1;
  int status = read_lease(hub, name, lease, error);
  lease->passes_name = hub->passes_name;
  close_received(hub);
  return status;
}

static int publish(struct cuda_ipc_lease *lease, cuda_ipc_error *error) {
  cuda_ipc_error found = {"", ""};
  begin_publish(lease->hub, lease->object);
  int status = request(lease->hub, &found);
  lease->may_have_name = lease->passes_name && strcmp(found.code, "TIMEOUT") == 0;
  if (status == 0) lose_name(lease->hub, lease->name);
  else if (error != NULL) *error = found;
  return status;
}

/* None but a reader has a place. */
static int check_place(cuda_ipc_hub *hub, const char *name, const char *role,
                       struct cuda_ipc_lease *lease, cuda_ipc_error *error) {
  bool is_reader = role != NULL && strcmp(role, "reader") == 0;
  if (is_reader || member(&hub->json, hub->result, "place") < 0) return 0;
  close_received(hub);
  end_lease(lease);
  return fail(error, "INVALID_MESSAGE", "Cannot open \"%s\": the hub gave a reader's place", name);
}

/* "open, cancel". The latest answer is then the hub's; its descriptors are the caller's. */
static int open_object(cuda_ipc_hub *hub, const char *name, cuda_ipc_access access,
                       const char *role, int64_t timeout_ms, struct cuda_ipc_lease *lease,
                       cuda_ipc_error *error) {
  int64_t deadline = deadline_in(timeout_ms == 0 ? hub->timeout_ms : timeout_ms);
  if (hub->gone) return hub_gone(hub, error);
  begin(hub, "open");
  int64_t id = hub->last_id;
  add(&hub->sent, ",\"name\":");
  add_string(&hub->sent, name);
  add(&hub->sent, ",\"access\":\"%s\",\"wait\":%s", access == CUDA_IPC_READ ? "read" : "read-write",
      timeout_ms == 0 ? "false" : "true");
  if (role != NULL) add(&hub->sent, ",\"role\":\"%s\"", role);
  add(&hub->sent, "}");
  if (send_request(hub, NULL, 0, deadline, error) != 0) return -1;
  int answered = await_reply(hub, id, deadline, error);
  if (answered < 0 || (answered > 0 && read_lease(hub, name, lease, error) != 0)) return -1;
  if (answered > 0) return check_place(hub, name, role, lease, error);
  hub->late++;
  /* The answer to the open comes before that to `cancel`, and is dropped as any late one. */
  char found[1100] = "";
  add(begin(hub, "cancel"), ",\"request\":%lld,\"explain\":true}", (long long)id);
  if (exchange(hub, NULL, 0, deadline_in(EXPLAIN_MS), NULL) == 0) {
    copy_string(&hub->json, member(&hub->json, hub->result, "found"), found, sizeof found);
    close_received(hub);
  }
  return fail(error, "TIMEOUT", "Cannot open \"%s\" within %lld ms: %s; the hub is at %s", name,
              (long long)timeout_ms, *found == 0 ? "the hub did not say why" : found, hub->path);
}

static const char *const kinds[] = {"array", "bundle", "timeline", "channel"};

static int find_text(const struct json *json, int at, const char *const *texts, int count) {
  for (int i = 0; i < count; i++) if (is_text(json, at, texts[i])) return i;
  return -1;
}

/* Copies the name of an object. False if it is none. */
static bool read_name(const struct json *json, int at, char name[CUDA_IPC_NAME_BYTES_MAX + 1]) {
  size_t length = copy_string(json, at, name, CUDA_IPC_NAME_BYTES_MAX + 1);
  const char *set = ".-:0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  return length > 0 && strspn(name, set) == length && strspn(name, ".-:") == 0 &&
         json->tokens[at].end - json->tokens[at].start - 2 <= CUDA_IPC_NAME_BYTES_MAX;
}

static bool is_device(const struct json *json, int at, bool is_gpu, const char *uuid) {
  if (!is_gpu) return HAS_ONLY(json, at, "kind") && is_text(json, member(json, at, "kind"), "host");
  return HAS_ONLY(json, at, "kind", "uuid") && strlen(uuid) == 40 &&
         (memcmp(uuid, "GPU-", 4) == 0 || memcmp(uuid, "MIG-", 4) == 0) &&
         strspn(uuid + 4, "0123456789abcdef-") == 36;
}

/* Of a copy that a bridge made. */
static bool is_origin(const struct json *json, int at) {
  char machine[CUDA_IPC_NAME_BYTES_MAX + 1];
  int64_t object;
  return HAS_ONLY(json, at, "machine", "object") &&
         read_name(json, member(json, at, "machine"), machine) &&
         integer(json, member(json, at, "object"), 1, INTEGER_MAX, &object);
}

/* Reads the memory of a descriptor, and gives the token of its content, or -1. */
static int read_location(const struct json *json, int at, struct location *location) {
  int64_t version;
  int device = member(json, at, "device"), mechanism = member(json, at, "mechanism");
  location->gpu = is_text(json, member(json, device, "kind"), "cuda");
  copy_string(json, member(json, device, "uuid"), location->uuid, sizeof location->uuid);
  int origin = member(json, at, "replicaOf"), content = member(json, at, "content");
  if (!HAS_ONLY(json, at, "version", "device", "mechanism", "byteLength", "allocationByteLength",
                "content", "replicaOf") ||
      !is_device(json, device, location->gpu, location->uuid) ||
      (origin >= 0 && !is_origin(json, origin)) ||
      find_text(json, member(json, content, "kind"), kinds, 4) < 0 ||
      !integer(json, member(json, at, "version"), 1, 1, &version) ||
      !integer(json, member(json, at, "allocationByteLength"), 1, INTEGER_MAX,
          &location->allocation) ||
      !integer(json, member(json, at, "byteLength"), 0, location->allocation,
          &location->byte_length) ||
      !is_text(json, mechanism, location->gpu ? "vmm" : "memfd"))
    return -1;
  return content;
}

/* Of the latest answer: the content, if it is of this kind, with so many descriptors. */
static int read_content(cuda_ipc_hub *hub, const char *name, const char *kind, int fd_count,
                        struct location *location, cuda_ipc_error *error) {
  const struct json *json = &hub->json;
  int descriptor = member(json, hub->result, "descriptor");
  int content = member(json, descriptor, "content");
  char found[32];
  copy_string(json, member(json, content, "kind"), found, sizeof found);
  if (is_text(json, member(json, descriptor, "mechanism"), "pool"))
    return fail(error, "UNSUPPORTED", "Cannot open \"%s\": this client does not open memory of "
                "pools", name);
  if (is_text(json, member(json, descriptor, "mechanism"), "legacy"))
    return fail(error, "UNSUPPORTED", "Cannot open \"%s\": this client does not open legacy "
                "memory", name);
  bool is_whole = read_location(json, descriptor, location) >= 0;
  if (is_whole && strcmp(found, kind) != 0)
    return fail(error, "WRONG_KIND", "Cannot open \"%s\": it is of the kind %s, wanted %s", name,
                found, kind);
  if (is_whole && hub->fd_count == fd_count) return content;
  return fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": its descriptor contradicts itself",
              name);
}

static int map_location(struct memory *memory, const struct location *location, int fd,
    bool read_only,
                     const char *name, cuda_ipc_error *error) {
  if (location->gpu) return map_gpu(memory, fd, location->allocation, location->uuid, read_only,
      error);
  return map_file(memory, fd, location->allocation, false, read_only, name, error);
}

/* ---- arrays ---- */

static cuda_ipc_array *new_array(cuda_ipc_error *error) {
  cuda_ipc_array *array = calloc(1, sizeof *array);
  if (array != NULL) array->lease = calloc(1, sizeof *array->lease);
  if (array != NULL && array->lease != NULL) return array;
  free(array);
  fail(error, "OUT_OF_MEMORY", "No memory for an array");
  return NULL;
}

static void free_array(cuda_ipc_array *array) {
  free(array->lease);
  free(array);
}

static void point_at(cuda_ipc_array *array, int64_t offset) {
  const struct memory *memory = &array->lease->memory;
  if (memory->cpu != NULL) array->data = memory->cpu + offset;
  else array->device_data = memory->device + (uint64_t)offset;
}

cuda_ipc_array *cuda_ipc_create(cuda_ipc_hub *hub, const char *name,
                                const cuda_ipc_create_options *options, cuda_ipc_error *error) {
  struct location location = {.gpu = false};
  struct memory memory;
  int fd;
  cuda_ipc_array *array = new_array(error);
  if (array == NULL) return NULL;
  if (set_layout(array, name, options->dtype, options->rank, options->shape,
                 CUDA_IPC_DIMENSIONS_MAX, error) != 0)
    return free_array(array), NULL;
  location.byte_length = array->element_count * array->item_bytes;
  if (create_memory(&memory, &location, options->device, options->preallocate, &fd, name,
      error) != 0)
    return free_array(array), NULL;
  begin_create(hub, name, options->pinned, options->replace, &location);
  add(&hub->sent, "{\"kind\":\"array\",\"array\":{");
  add_layout(&hub->sent, &array->layout, 0);
  add(&hub->sent, "}}");
  int status = finish_create(hub, name, &fd, 1, array->lease, error);
  close(fd);
  if (status != 0) {
    unmap_memory(&memory);
    return free_array(array), NULL;
  }
  array->lease->memory = memory;
  point_at(array, 0);
  return array;
}

int cuda_ipc_publish(cuda_ipc_array *array, cuda_ipc_error *error) {
  return publish(array->lease, error);
}

cuda_ipc_array *cuda_ipc_open(cuda_ipc_hub *hub, const char *name, cuda_ipc_access access,
                              int64_t timeout_ms, cuda_ipc_error *error) {
  struct location location;
  int64_t offset;
  cuda_ipc_array *array = new_array(error);
  if (array == NULL) return NULL;
  if (open_object(hub, name, access, NULL, timeout_ms, array->lease, error) != 0)
    return free_array(array), NULL;
  array->read_only = access == CUDA_IPC_READ;
  int content = read_content(hub, name, "array", 1, &location, error), status = -1;
  int layout = member(&hub->json, content, "array");
  if (content < 0) status = -1;
  else if (!HAS_ONLY(&hub->json, content, "kind", "array") ||
           !HAS_ONLY(&hub->json, layout, "dtype", "shape", "strides", "byteOffset") ||
           !read_layout(&hub->json, layout, location.byte_length, array, &offset))
    fail_layout(&hub->json, layout, name, error);
  else status = map_location(&array->lease->memory, &location, hub->fds[0], array->read_only, name,
      error);
  close_received(hub);
  if (status == 0) return point_at(array, offset), array;
  end_lease(array->lease);
  return free_array(array), NULL;
}

static int check_copy(const cuda_ipc_array *array, size_t bytes, cuda_ipc_error *error) {
  size_t wanted = (size_t)(array->element_count * array->item_bytes);
  if (array->contiguous && bytes == wanted) return 0;
  return fail(error, "INVALID_DESCRIPTOR", "Cannot copy \"%s\": %s, and it has %zu bytes, not %zu",
              array->lease->name, array->contiguous ? "it is contiguous" : "it has gaps", wanted,
                  bytes);
}

int cuda_ipc_copy_from(const cuda_ipc_array *array, void *to, size_t bytes,
                       cuda_ipc_error *error) {
  if (check_copy(array, bytes, error) != 0) return -1;
  return copy_out(&array->lease->memory, array->data, array->device_data, to, bytes, error);
}

int cuda_ipc_copy_to(cuda_ipc_array *array, const void *from, size_t bytes,
                     cuda_ipc_error *error) {
  if (check_copy(array, bytes, error) != 0) return -1;
  if (array->read_only)
    return fail(error, "READ_ONLY", "Cannot write \"%s\": it was opened for reading",
        array->lease->name);
  return copy_in(&array->lease->memory, array->data, array->device_data, from, bytes, error);
}

void cuda_ipc_array_close(cuda_ipc_array *array) {
  if (array == NULL) return;
  end_lease(array->lease);
  free_array(array);
}

int cuda_ipc_remove(cuda_ipc_hub *hub, const char *name, cuda_ipc_error *error) {
  begin(hub, "remove");
  add(&hub->sent, ",\"name\":");
  add_string(&hub->sent, name);
  add(&hub->sent, "}");
  if (request(hub, error) != 0) return -1;
  lose_name(hub, name);
  return 0;
}

static bool read_entry(const struct json *json, int at, cuda_ipc_entry *entry) {
  int descriptor = member(json, at, "descriptor");
  struct location location = {.gpu = false};
  *entry = (cuda_ipc_entry){.published = is_true(json, member(json, at, "published"))};
  int kind = find_text(json, member(json, member(json, descriptor, "content"), "kind"), kinds, 4);
  int device = member(json, descriptor, "device"), owner = member(json, at, "ownerPid");
  bool is_gpu = is_text(json, member(json, device, "kind"), "cuda");
  copy_string(json, member(json, device, "uuid"), location.uuid, sizeof location.uuid);
  snprintf(entry->device, sizeof entry->device, "%s", is_gpu ? location.uuid : "host");
  if (kind >= 0) strcpy(entry->kind, kinds[kind]);
  return kind >= 0 && is_device(json, device, is_gpu, location.uuid) &&
         read_name(json, member(json, at, "name"), entry->name) &&
         is_type(json, member(json, at, "published"), "tf") &&
         (is_type(json, owner, "n") || integer(json, owner, 0, INTEGER_MAX, &entry->owner_pid)) &&
         integer(json, member(json, at, "leases"), 0, INTEGER_MAX, &entry->leases) &&
         integer(json, member(json, descriptor, "byteLength"), 0, INTEGER_MAX, &entry->byte_length);
}

int cuda_ipc_list(cuda_ipc_hub *hub, bool (*each)(void *context, const cuda_ipc_entry *entry),
                  void *context, cuda_ipc_error *error) {
  /* A copy of the page, because `each` may ask the hub something. */
  cuda_ipc_entry *page = NULL;
  char after[CUDA_IPC_NAME_BYTES_MAX + 1] = "";
  for (bool goes_on = true; goes_on;) {
    char next[sizeof after] = "";
    begin(hub, "list");
    if (*after != 0) add(&hub->sent, ",\"after\":"), add_string(&hub->sent, after);
    add(&hub->sent, "}");
    if (request(hub, error) != 0) return free(page), -1;
    const struct json *json = &hub->json;
    int objects = member(json, hub->result, "objects"), next_at = member(json, hub->result, "next");
    if (!is_type(json, objects, "[") || !is_type(json, next_at, "n\""))
      return free(page), fail(error, "INVALID_MESSAGE", "The hub sent no list");
    int count = json->tokens[objects].count;
    cuda_ipc_entry *room = realloc(page, (size_t)(count + 1) * sizeof *page);
    if (room == NULL) return free(page), fail(error, "OUT_OF_MEMORY", "No memory for a list");
    page = room;
    for (int i = 0, at = objects + 1; i < count; i++, at = json->tokens[at].next)
      if (!read_entry(json, at, &page[i]))
        return free(page), fail(error, "INVALID_MESSAGE",
            "The hub's list has an entry that makes no sense");
    goes_on = is_type(json, next_at, "\"");
    /* The same page again and again would never end. */
    if (goes_on && (!read_name(json, next_at, next) || strcmp(next, after) <= 0))
      return free(page), fail(error, "INVALID_MESSAGE", "The hub's list goes backwards at \"%s\"",
          next);
    strcpy(after, next);
    for (int i = 0; i < count; i++)
      if (!each(context, &page[i])) return free(page), 0;
  }
  return free(page), 0;
}

/* ---- bundles ---- */

#define BUNDLE_ALIGNMENT 256 /* as cudaMalloc aligns, for reads of full width */

static int by_name(const void *one, const void *other) {
  const cuda_ipc_bundle_array *a = *(cuda_ipc_bundle_array *const *)one;
  const cuda_ipc_bundle_array *b = *(cuda_ipc_bundle_array *const *)other;
  size_t shorter = a->name_bytes < b->name_bytes ? a->name_bytes : b->name_bytes;
  int order = memcmp(a->name, b->name, shorter);
  return order != 0 ? order : (a->name_bytes > b->name_bytes) - (a->name_bytes < b->name_bytes);
}

static void free_bundle(cuda_ipc_bundle *bundle) {
  free(bundle->arrays);
  free(bundle->sorted);
  free(bundle->metadata);
  free(bundle->texts);
  free(bundle->lease);
  free(bundle);
}

/* @param text_bytes room for all names and metadata */
static int allocate_bundle(cuda_ipc_bundle *bundle, size_t count, size_t metadata_count,
                           size_t text_bytes, cuda_ipc_error *error) {
  bundle->arrays = calloc(count + 1, sizeof *bundle->arrays);
  bundle->sorted = calloc(count + 1, sizeof(void *));
  bundle->metadata = calloc(metadata_count + 1, sizeof *bundle->metadata);
  bundle->texts = malloc(text_bytes + 1);
  if (bundle->arrays == NULL || bundle->sorted == NULL || bundle->metadata == NULL ||
      bundle->texts == NULL)
    return fail(error, "OUT_OF_MEMORY", "No memory for a bundle of %zu arrays", count);
  bundle->count = count;
  bundle->metadata_count = metadata_count;
  for (size_t i = 0; i < count; i++) {
    bundle->sorted[i] = &bundle->arrays[i];
    bundle->arrays[i].array.lease = bundle->lease;
  }
  return 0;
}

static cuda_ipc_bundle *new_bundle(cuda_ipc_error *error) {
  cuda_ipc_bundle *bundle = calloc(1, sizeof *bundle);
  if (bundle != NULL) bundle->lease = calloc(1, sizeof *bundle->lease);
  if (bundle != NULL && bundle->lease != NULL) return bundle;
  free(bundle);
  fail(error, "OUT_OF_MEMORY", "No memory for a bundle");
  return NULL;
}

/* Sorts by name. Fails if a name stands twice. */
static int sort_bundle(cuda_ipc_bundle *bundle, const char *name, cuda_ipc_error *error) {
  qsort(bundle->sorted, bundle->count, sizeof(void *), by_name);
  for (size_t i = 1; i < bundle->count; i++)
    if (by_name(&bundle->sorted[i - 1], &bundle->sorted[i]) == 0)
      return fail(error, "INVALID_DESCRIPTOR", "Bundle \"%s\" has two arrays of the name \"%s\"",
                  name, bundle->sorted[i]->name);
  return 0;
}

cuda_ipc_array *cuda_ipc_bundle_find(const cuda_ipc_bundle *bundle, const char *name) {
  cuda_ipc_bundle_array wanted = {.name = name, .name_bytes = strlen(name)}, *key = &wanted;
  cuda_ipc_bundle_array **found =
      bsearch(&key, bundle->sorted, bundle->count, sizeof(void *), by_name);
  return found == NULL ? NULL : &(*found)->array;
}

/* Copies a whole file, so that nobody changes the bytes between their check and their use. */
static char *read_file(int fd, int64_t bytes, const char *name, cuda_ipc_error *error) {
  struct stat facts;
  char *copy = malloc((size_t)bytes);
  if (copy == NULL) return fail(error, "OUT_OF_MEMORY", "No memory for an index"), NULL;
  bool is_whole = is_memory_file(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, &facts) &&
                  facts.st_size == bytes;
  int64_t done = is_whole ? 0 : -1;
  while (done >= 0 && done < bytes) {
    ssize_t count = pread(fd, copy + done, (size_t)(bytes - done), done);
    if (count < 0 && errno == EINTR) continue;
    done = count <= 0 ? -1 : done + count;
  }
  if (done == bytes) return copy;
  fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": its index is no memory file of %lld bytes "
       "that is sealed against writing", name, (long long)bytes);
  return free(copy), NULL;
}

/* Copies a string to `*texts` and goes past it. */
static const char *keep_string(const struct json *json, int at, char **texts, size_t *length) {
  char *start = *texts;
  const struct token *token = &json->tokens[at];
  *length = copy_string(json, at, start, (size_t)(token->end - token->start));
  *texts += *length + 1;
  return start;
}

/* "What to check" of an index: layouts, names and metadata. */
static int fill_bundle(cuda_ipc_bundle *bundle, const struct json *json, int64_t array_count,
                       int64_t byte_length, const char *name, cuda_ipc_error *error) {
  int arrays = member(json, 0, "arrays"), metadata = member(json, 0, "metadata");
  int64_t version, offset;
  size_t length;
  if (!HAS_ONLY(json, 0, "version", "metadata", "arrays") ||
      !integer(json, member(json, 0, "version"), 1, 1, &version) || arrays < 0 || metadata < 0 ||
      json->tokens[arrays].type != '[' || json->tokens[arrays].count != array_count ||
      json->tokens[metadata].type != '{')
    return fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": its index contradicts itself",
                name);
  int pairs = json->tokens[metadata].count;
  if (allocate_bundle(bundle, (size_t)array_count, (size_t)pairs, (size_t)json->length,
                      error) != 0)
    return -1;
  char *texts = bundle->texts;
  for (int i = 0, at = metadata + 1; i < pairs; i++, at = json->tokens[at + 1].next) {
    if (json->tokens[at + 1].type != '"')
      return fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": its metadata is no text", name);
    bundle->metadata[i].key = keep_string(json, at, &texts, &length);
    bundle->metadata[i].value = keep_string(json, at + 1, &texts, &length);
  }
  for (size_t i = 0, at = (size_t)arrays + 1; i < bundle->count; i++) {
    cuda_ipc_bundle_array *one = &bundle->arrays[i];
    int named = member(json, (int)at, "name");
    if (!is_type(json, named, "\"") ||
        !HAS_ONLY(json, (int)at, "name", "dtype", "shape", "strides", "byteOffset") ||
        !read_layout(json, (int)at, byte_length, &one->array, &offset))
      return fail_layout(json, (int)at, name, error);
    one->name = keep_string(json, named, &texts, &one->name_bytes);
    point_at(&one->array, offset);
    at = (size_t)json->tokens[at].next;
  }
  return sort_bundle(bundle, name, error);
}

/* Maps the memory of the latest answer and reads its index. */
static int map_bundle(cuda_ipc_bundle *bundle, bool read_only, const char *name,
                      cuda_ipc_error *error) {
  cuda_ipc_hub *hub = bundle->lease->hub;
  struct json json = {.tokens = NULL};
  struct location location;
  int64_t count, bytes;
  int content = read_content(hub, name, "bundle", 2, &location, error);
  if (content < 0) return -1;
  if (!HAS_ONLY(&hub->json, content, "kind", "arrayCount", "indexByteLength") ||
      !integer(&hub->json, member(&hub->json, content, "arrayCount"), 0,
               CUDA_IPC_BUNDLE_ARRAYS_MAX, &count) ||
      !integer(&hub->json, member(&hub->json, content, "indexByteLength"), 2,
               CUDA_IPC_INDEX_BYTES_MAX, &bytes))
    return fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": its descriptor is not valid",
                name);
  if (map_location(&bundle->lease->memory, &location, hub->fds[0], read_only, name, error) != 0)
    return -1;
  char *index = read_file(hub->fds[1], bytes, name, error);
  if (index == NULL) return -1;
  int status = parse_json(&json, index, (int)bytes)
                   ? fill_bundle(bundle, &json, count, location.byte_length, name, error)
                   : fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": its index is not JSON",
                          name);
  free(json.tokens);
  free(index);
  for (size_t i = 0; i < bundle->count; i++) bundle->arrays[i].array.read_only = read_only;
  return status;
}

cuda_ipc_bundle *cuda_ipc_bundle_open(cuda_ipc_hub *hub, const char *name, cuda_ipc_access access,
                                      int64_t timeout_ms, cuda_ipc_error *error) {
  cuda_ipc_bundle *bundle = new_bundle(error);
  if (bundle == NULL) return NULL;
  if (open_object(hub, name, access, NULL, timeout_ms, bundle->lease, error) != 0)
    return free_bundle(bundle), NULL;
  int status = map_bundle(bundle, access == CUDA_IPC_READ, name, error);
  close_received(hub);
  if (status == 0) return bundle->object = bundle->lease->object, bundle;
  cuda_ipc_bundle_close(bundle);
  return NULL;
}

/* Places the arrays one behind the other. Gives the end of the last one, or -1. */
static int64_t place_parts(cuda_ipc_bundle *bundle, const cuda_ipc_bundle_options *options,
                           int64_t *offsets, const char *name, cuda_ipc_error *error) {
  int64_t end = 0;
  char *texts = bundle->texts;
  for (size_t i = 0; i < options->count; i++) {
    const cuda_ipc_bundle_part *part = &options->parts[i];
    cuda_ipc_bundle_array *one = &bundle->arrays[i];
    if (set_layout(&one->array, part->name, part->dtype, part->rank, part->shape,
                   CUDA_IPC_DIMENSIONS_MAX, error) != 0)
      return -1;
    one->name_bytes = strlen(part->name);
    one->name = strcpy(texts, part->name);
    texts += one->name_bytes + 1;
    offsets[i] = (end + BUNDLE_ALIGNMENT - 1) / BUNDLE_ALIGNMENT * BUNDLE_ALIGNMENT;
    if (!plus(offsets[i], one->array.element_count * one->array.item_bytes, &end))
      return fail(error, "INVALID_DESCRIPTOR", "Cannot create \"%s\": it is too large", name);
  }
  for (size_t i = 0; i < options->metadata_count; i++) {
    const cuda_ipc_pair *pair = &options->metadata[i];
    bundle->metadata[i] = (cuda_ipc_pair){texts, texts + strlen(pair->key) + 1};
    texts = stpcpy(stpcpy(texts, pair->key) + 1, pair->value) + 1;
  }
  return sort_bundle(bundle, name, error) == 0 ? end : -1;
}

/* The index as JSON. The caller frees it. */
static char *write_index(const cuda_ipc_bundle *bundle, const int64_t *offsets, size_t text_bytes,
                         size_t *length, cuda_ipc_error *error) {
  /* A character takes 6 bytes at most, and a number 21. */
  size_t room = 100 + 6 * text_bytes + 10 * bundle->metadata_count;
  for (size_t i = 0; i < bundle->count; i++)
    room += 150 + 2 * 21 * (size_t)bundle->arrays[i].array.layout.rank;
  struct text text = {malloc(room), 0, room};
  if (text.bytes == NULL) return fail(error, "OUT_OF_MEMORY", "No memory for an index"), NULL;
  add(&text, "{\"version\":1,\"metadata\":{");
  for (size_t i = 0; i < bundle->metadata_count; i++) {
    if (i > 0) add(&text, ",");
    add_string(&text, bundle->metadata[i].key);
    add(&text, ":");
    add_string(&text, bundle->metadata[i].value);
  }
  add(&text, "},\"arrays\":[");
  for (size_t i = 0; i < bundle->count; i++) {
    add(&text, "%s{\"name\":", i == 0 ? "" : ",");
    add_string(&text, bundle->arrays[i].name);
    add(&text, ",");
    add_layout(&text, &bundle->arrays[i].array.layout, offsets[i]);
    add(&text, "}");
  }
  add(&text, "]}");
  *length = text.length;
  return text.bytes;
}

/* A memory file that nobody can change any more. */
static int seal_index(const char *bytes, size_t length, const char *name, cuda_ipc_error *error) {
  int fd = memfd_create("cuda-ipc-index", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  size_t done = 0;
  while (fd >= 0 && done < length) {
    ssize_t count = write(fd, bytes + done, length - done);
    if (count < 0 && errno != EINTR) break;
    if (count > 0) done += (size_t)count;
  }
  if (fd >= 0 && done == length &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0)
    return fd;
  fail_errno(error, "create the index of", name);
  if (fd >= 0) close(fd);
  return -1;
}

/* Allocates the memory and registers it beside its index. */
static int share_bundle(cuda_ipc_hub *hub, cuda_ipc_bundle *bundle, const char *name,
                        const cuda_ipc_bundle_options *options, const int64_t *offsets,
                        int64_t byte_length, int index, size_t index_bytes,
                        cuda_ipc_error *error) {
  struct location location = {.byte_length = byte_length};
  struct memory memory;
  int fds[2] = {-1, index};
  if (create_memory(&memory, &location, options->device, options->preallocate, &fds[0], name,
      error) != 0)
    return -1;
  begin_create(hub, name, options->pinned, options->replace, &location);
  add(&hub->sent, "{\"kind\":\"bundle\",\"arrayCount\":%zu,\"indexByteLength\":%zu}",
      bundle->count, index_bytes);
  int status = finish_create(hub, name, fds, 2, bundle->lease, error);
  close(fds[0]);
  if (status != 0) return unmap_memory(&memory), -1;
  bundle->lease->memory = memory;
  bundle->object = bundle->lease->object;
  for (size_t i = 0; i < bundle->count; i++) point_at(&bundle->arrays[i].array, offsets[i]);
  return 0;
}

cuda_ipc_bundle *cuda_ipc_bundle_create(cuda_ipc_hub *hub, const char *name,
                                        const cuda_ipc_bundle_options *options,
                                        cuda_ipc_error *error) {
  size_t text_bytes = 0, index_bytes = 0;
  char *index = NULL;
  int status = -1, fd = -1;
  if (options->count > CUDA_IPC_BUNDLE_ARRAYS_MAX)
    return fail(error, "LIMIT_EXCEEDED", "Cannot create \"%s\": %zu arrays, at most %d are "
                "possible", name, options->count, CUDA_IPC_BUNDLE_ARRAYS_MAX), NULL;
  for (size_t i = 0; i < options->count; i++) text_bytes += strlen(options->parts[i].name) + 1;
  for (size_t i = 0; i < options->metadata_count; i++)
    text_bytes += strlen(options->metadata[i].key) + strlen(options->metadata[i].value) + 2;
  cuda_ipc_bundle *bundle = new_bundle(error);
  if (bundle == NULL) return NULL;
  int64_t byte_length = -1, *offsets = calloc(options->count + 1, sizeof *offsets);
  if (offsets == NULL) fail(error, "OUT_OF_MEMORY", "No memory for a bundle");
  else if (allocate_bundle(bundle, options->count, options->metadata_count, text_bytes,
                           error) == 0)
    byte_length = place_parts(bundle, options, offsets, name, error);
  if (byte_length >= 0) index = write_index(bundle, offsets, text_bytes, &index_bytes, error);
  if (index != NULL && index_bytes > CUDA_IPC_INDEX_BYTES_MAX)
    fail(error, "LIMIT_EXCEEDED", "Cannot create \"%s\": its index has %zu bytes, at most %d are "
         "possible", name, index_bytes, CUDA_IPC_INDEX_BYTES_MAX);
  else if (index != NULL) fd = seal_index(index, index_bytes, name, error);
  if (fd >= 0) {
    status = share_bundle(hub, bundle, name, options, offsets, byte_length, fd, index_bytes, error);
    close(fd);
  }
  free(index);
  free(offsets);
  if (status == 0) return bundle;
  return free_bundle(bundle), NULL;
}

int cuda_ipc_bundle_publish(cuda_ipc_bundle *bundle, cuda_ipc_error *error) {
  return publish(bundle->lease, error);
}

void cuda_ipc_bundle_close(cuda_ipc_bundle *bundle) {
  if (bundle == NULL) return;
  end_lease(bundle->lease);
  free_bundle(bundle);
}

/* ---- timelines ---- */

static const char *const endings[] = {"end", "wait"};

struct cuda_ipc_timeline {
  struct cuda_ipc_lease lease;
  struct cuda_ipc_line *line;
  bool is_own;
  bool awaits_owner; /* closing it does not end it */
};

static int64_t value_of(const struct cuda_ipc_line *line, bool *ended) {
  int64_t value = LOAD(&line->value);
  *ended = value == CUDA_IPC_POISON;
  return *ended ? LOAD(&line->final) : value;
}

static void end_line(struct cuda_ipc_line *line) {
  int64_t value = LOAD(&line->value);
  if (value == CUDA_IPC_POISON) return;
  STORE(&line->final, value);
  STORE(&line->value, CUDA_IPC_POISON);
}

static cuda_ipc_timeline *create_timeline(cuda_ipc_hub *hub, const char *name, bool awaits_owner,
                                          cuda_ipc_error *error) {
  struct location location = {.byte_length = CUDA_IPC_LINE_BYTES};
  struct memory memory;
  int fd;
  cuda_ipc_timeline *timeline = calloc(1, sizeof *timeline);
  if (timeline == NULL) return fail(error, "OUT_OF_MEMORY", "No memory for a timeline"), NULL;
  if (create_memory(&memory, &location, NULL, false, &fd, name, error) != 0)
    return free(timeline), NULL;
  begin_create(hub, name, awaits_owner, CUDA_IPC_REPLACE_NONE, &location);
  add(&hub->sent, "{\"kind\":\"timeline\",\"byteOffset\":0%s}",
      awaits_owner ? ",\"whenOwnerGone\":\"wait\"" : "");
  int status = finish_create(hub, name, &fd, 1, &timeline->lease, error);
  close(fd);
  if (status != 0) {
    unmap_memory(&memory);
    return free(timeline), NULL;
  }
  timeline->lease.memory = memory;
  timeline->line = (struct cuda_ipc_line *)memory.cpu;
  timeline->is_own = true;
  timeline->awaits_owner = awaits_owner;
  if (publish(&timeline->lease, error) == 0) return timeline;
  cuda_ipc_timeline_close(timeline);
  return NULL;
}

cuda_ipc_timeline *cuda_ipc_timeline_create(cuda_ipc_hub *hub, const char *name,
                                            cuda_ipc_error *error) {
  return create_timeline(hub, name, false, error);
}

cuda_ipc_timeline *cuda_ipc_timeline_create_resumable(cuda_ipc_hub *hub, const char *name,
                                                      cuda_ipc_error *error) {
  return create_timeline(hub, name, true, error);
}

static cuda_ipc_timeline *open_timeline(cuda_ipc_hub *hub, const char *name, bool as_owner,
                                        int64_t timeout_ms, cuda_ipc_error *error) {
  struct location location;
  int64_t offset;
  cuda_ipc_timeline *timeline = calloc(1, sizeof *timeline);
  if (timeline == NULL) return fail(error, "OUT_OF_MEMORY", "No memory for a timeline"), NULL;
  if (open_object(hub, name, as_owner ? CUDA_IPC_READ_WRITE : CUDA_IPC_READ,
                  as_owner ? "writer" : NULL, timeout_ms, &timeline->lease, error) != 0)
    return free(timeline), NULL;
  int content = read_content(hub, name, "timeline", 1, &location, error), status = -1;
  int gone = member(&hub->json, content, "whenOwnerGone");
  if (content < 0) status = -1;
  else if (location.gpu || location.allocation > CUDA_IPC_TIMELINE_BYTES_MAX ||
           !HAS_ONLY(&hub->json, content, "kind", "byteOffset", "whenOwnerGone") ||
           (gone >= 0 && find_text(&hub->json, gone, endings, 2) < 0) ||
           !integer(&hub->json, member(&hub->json, content, "byteOffset"), 0,
                                 location.byte_length - CUDA_IPC_LINE_BYTES, &offset) ||
           offset % CUDA_IPC_LINE_BYTES != 0)
    fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": its line leaves its memory", name);
  else
    status = map_location(&timeline->lease.memory, &location, hub->fds[0], !as_owner, name, error);
  close_received(hub);
  if (status == 0) {
    timeline->line = (struct cuda_ipc_line *)(timeline->lease.memory.cpu + offset);
    timeline->is_own = timeline->awaits_owner = as_owner;
    if (as_owner) STORE(&timeline->line->awaited, 0);
    return timeline;
  }
  end_lease(&timeline->lease);
  return free(timeline), NULL;
}

cuda_ipc_timeline *cuda_ipc_timeline_open(cuda_ipc_hub *hub, const char *name, int64_t timeout_ms,
                                          cuda_ipc_error *error) {
  return open_timeline(hub, name, false, timeout_ms, error);
}

cuda_ipc_timeline *cuda_ipc_timeline_resume(cuda_ipc_hub *hub, const char *name,
                                            int64_t timeout_ms, cuda_ipc_error *error) {
  return open_timeline(hub, name, true, timeout_ms, error);
}

int64_t cuda_ipc_timeline_value(const cuda_ipc_timeline *timeline) {
  bool ended;
  int64_t value = value_of(timeline->line, &ended);
  return ended || LOAD(&timeline->line->awaited) != 0 ? -1 : value;
}

int64_t cuda_ipc_timeline_last_value(const cuda_ipc_timeline *timeline) {
  bool ended;
  return value_of(timeline->line, &ended);
}

int cuda_ipc_timeline_signal(cuda_ipc_timeline *timeline, int64_t value, cuda_ipc_error *error) {
  if (!timeline->is_own)
    return fail(error, "READ_ONLY", "Cannot signal \"%s\": only its maker does",
        timeline->lease.name);
  if (value <= LOAD(&timeline->line->value) || value >= CUDA_IPC_POISON)
    return fail(error, "INVALID_DESCRIPTOR",
        "Cannot signal \"%s\" with %lld: it is at %lld and only grows",
                timeline->lease.name, (long long)value, (long long)LOAD(&timeline->line->value));
  STORE(&timeline->line->value, value);
  return 0;
}

/* Looks often for 20 us, and then with pauses that grow to a millisecond. There is no bell. */
static int wait_for_line(cuda_ipc_hub *hub, const struct cuda_ipc_line *line, int64_t wanted,
                         int64_t deadline) {
  int64_t began = now_us(), rest = 0;
  for (;;) {
    bool ended;
    int64_t value = value_of(line, &ended);
    if (value >= wanted) return 1;
    if (ended) return -1;
    int64_t now = now_us();
    if (now >= deadline || has_hung_up(hub)) return 0;
    if (now - began < 20) relax();
    else {
      rest = rest < 1000 ? rest + 20 : rest;
      pause_us(rest < deadline - now ? rest : deadline - now);
    }
  }
}

int cuda_ipc_timeline_wait(cuda_ipc_timeline *timeline, int64_t value, int64_t timeout_ms,
                           cuda_ipc_error *error) {
  const char *name = timeline->lease.name;
  int reached = wait_for_line(timeline->lease.hub, timeline->line, value, deadline_in(timeout_ms));
  long long now = (long long)cuda_ipc_timeline_last_value(timeline), wanted = (long long)value;
  if (reached > 0) return 0;
  if (reached < 0)
    return fail(error, "PEER_GONE", "Cannot wait for %lld of \"%s\": it ended at %lld", wanted,
        name, now);
  if (timeline->lease.hub->gone) return hub_gone(timeline->lease.hub, error);
  return fail(error, "TIMEOUT",
              "Cannot wait for %lld of \"%s\": it is at %lld after %lld ms; the hub is at %s", wanted,
              name, now, (long long)timeout_ms, timeline->lease.hub->path);
}

void cuda_ipc_timeline_close(cuda_ipc_timeline *timeline) {
  if (timeline == NULL) return;
  if (timeline->is_own && !timeline->awaits_owner) end_line(timeline->line);
  end_lease(&timeline->lease);
  free(timeline);
}

/* ---- channels: the memory that both sides share ---- */

struct ring {
  struct cuda_ipc_lease lease; /* its memory is the slots */
  struct memory control_memory;
  struct cuda_ipc_control *control;
  cuda_ipc_array message; /* layout and size of a whole message */
  int64_t slots, slot_bytes, slot_stride, header_stride, first_position;
  uint32_t readers_max, meta_bytes_max, when_full, when_writer_gone;
  int room_bell;
};

/* A division takes longer than the rest of a small message. Items have 1, 2, 4, 8 or 16 bytes. */
static bool is_whole(const cuda_ipc_array *message, int64_t byte_length) {
  return (byte_length & (message->item_bytes - 1)) == 0;
}

/* Most channels need no division. */
static int64_t slot_of(const struct ring *ring, int64_t position) {
  int64_t last = ring->slots - 1;
  return (ring->slots & last) == 0 ? position & last : position % ring->slots;
}

static struct cuda_ipc_header *header_of(const struct ring *ring, int64_t slot) {
  return (struct cuda_ipc_header *)((uint8_t *)ring->control + CUDA_IPC_HEADERS_AT +
                                    slot * ring->header_stride);
}

static const struct cuda_ipc_line *ready_line(const struct ring *ring, uint32_t epoch) {
  const struct cuda_ipc_line *lines = (const struct cuda_ipc_line *)ring->control->ready;
  return &lines[epoch % CUDA_IPC_READY_LINES];
}

static int64_t header_stride_of(uint32_t meta_bytes_max) {
  return (int64_t)sizeof(struct cuda_ipc_header) + ((int64_t)meta_bytes_max + 63) / 64 * 64;
}

static void ring_bell(int bell) {
  uint64_t once = 1;
  /* EAGAIN: it rings already. */
  if (write(bell, &once, sizeof once) < 0) return;
}

static void ring_once(int bell, const uint32_t *asleep_at, uint32_t *rung) {
  uint32_t asleep = LOAD(asleep_at);
  if (asleep % 2 == 0 || asleep == *rung) return;
  *rung = asleep;
  ring_bell(bell);
}

/* Sleeps until the bell rings, the hub hangs up, or the time is up. */
static void hear_bell(cuda_ipc_hub *hub, int bell, int64_t deadline) {
  struct pollfd watched[2] = {{.fd = bell, .events = POLLIN}, {.fd = hub->fd, .events = POLLRDHUP}};
  uint64_t rung;
  if (poll(watched, 2, poll_ms(deadline)) <= 0) return;
  if (watched[1].revents != 0) hub->gone = true;
  /* Silent again. A bell that somebody made blocking would wait here, so it is read if it rang. */
  if ((watched[0].revents & POLLIN) != 0 && read(bell, &rung, sizeof rung) < 0) return;
}

static void close_ring(struct ring *ring) {
  unmap_memory(&ring->control_memory);
  if (ring->room_bell >= 0) close(ring->room_bell);
  end_lease(&ring->lease);
}

static const char *const policies[] = {"wait", "drop-oldest", "drop-newest", "error"};

/* "Checks": of what the creator wrote, against the descriptor. */
static bool check_control(const struct ring *ring) {
  const struct cuda_ipc_control *control = ring->control;
  return memcmp(control->magic, "CIPCCHAN", 8) == 0 && control->slots == ring->slots && control->readers_max == ring->readers_max &&
         control->meta_bytes_max == ring->meta_bytes_max &&
         control->slot_bytes == (uint64_t)ring->slot_bytes &&
         control->slot_stride == (uint64_t)ring->slot_stride &&
         control->headers_at == CUDA_IPC_HEADERS_AT &&
         control->header_stride == ring->header_stride && control->when_full == ring->when_full &&
         control->when_writer_gone == ring->when_writer_gone &&
         control->first_position <= CUDA_IPC_POSITIONS_MAX;
}

static bool read_ring(const struct json *json, int at, const struct location *location,
                      struct ring *ring) {
  cuda_ipc_array *message = &ring->message;
  int64_t readers, meta;
  int shape = member(json, at, "shape");
  int full = find_text(json, member(json, at, "whenFull"), policies, 4);
  int gone = find_text(json, member(json, at, "whenWriterGone"), endings, 2);
  int dtype = read_dtype(json, at);
  if (!HAS_ONLY(json, at, "kind", "dtype", "shape", "slots", "readersMax", "slotBytes",
                "slotStride", "metaBytesMax", "whenFull", "whenWriterGone") ||
      dtype < 0 || full < 0 || gone < 0 || shape < 0 || json->tokens[shape].type != '[' ||
      json->tokens[shape].count > 8)
    return false;
  strcpy(message->layout.dtype, dtypes[dtype].name);
  message->item_bytes = dtypes[dtype].bytes;
  message->layout.rank = json->tokens[shape].count;
  for (int axis = 0, i = shape + 1; axis < message->layout.rank; axis++, i = json->tokens[i].next)
    if (!integer(json, i, 0, INTEGER_MAX, &message->layout.shape[axis])) return false;
  if (!pack(message) ||
      !integer(json, member(json, at, "slots"), 1, CUDA_IPC_SLOTS_MAX, &ring->slots) ||
      !integer(json, member(json, at, "readersMax"), 1, CUDA_IPC_READERS_MAX, &readers) ||
      !integer(json, member(json, at, "metaBytesMax"), 0, CUDA_IPC_META_BYTES_MAX, &meta) ||
      !integer(json, member(json, at, "slotBytes"), 1, INTEGER_MAX, &ring->slot_bytes) ||
      !integer(json, member(json, at, "slotStride"), ring->slot_bytes, INTEGER_MAX,
          &ring->slot_stride))
    return false;
  ring->readers_max = (uint32_t)readers;
  ring->meta_bytes_max = (uint32_t)meta;
  ring->when_full = (uint32_t)full;
  ring->when_writer_gone = (uint32_t)gone;
  ring->header_stride = header_stride_of(ring->meta_bytes_max);
  int64_t bytes, count = ring->slots + (full == CUDA_IPC_WHEN_FULL_DROP_NEWEST);
  return ring->slot_bytes == message->element_count * message->item_bytes &&
         ring->slot_stride % message->item_bytes == 0 && multiply(ring->slot_stride, count,
             &bytes) &&
         bytes == location->byte_length &&
         CUDA_IPC_HEADERS_AT + ring->slots * ring->header_stride <= CUDA_IPC_CONTROL_BYTES_MAX;
}

/* Maps the slots and the control file of the latest answer, and keeps the room bell. */
static int map_ring(struct ring *ring, bool read_only, const char *name, cuda_ipc_error *error) {
  cuda_ipc_hub *hub = ring->lease.hub;
  struct location location;
  int content = read_content(hub, name, "channel", read_only ? 5 : hub->fd_count, &location, error);
  if (content < 0) return -1;
  if (!read_ring(&hub->json, content, &location, ring) ||
      (!read_only && hub->fd_count != 3 + 2 * (int)ring->readers_max))
    return fail(error, "INVALID_DESCRIPTOR",
                "Cannot open \"%s\": its descriptor contradicts itself", name);
  if (!is_bell(hub->fds[2])) return fail_bell(name, error);
  int64_t bytes = CUDA_IPC_HEADERS_AT + ring->slots * ring->header_stride;
  if (map_location(&ring->lease.memory, &location, hub->fds[0], read_only, name, error) != 0 ||
      map_file(&ring->control_memory, hub->fds[1], bytes, true, read_only, name, error) != 0)
    return -1;
  ring->control = (struct cuda_ipc_control *)ring->control_memory.cpu;
  if (ring->control->version != CUDA_IPC_CHANNEL_VERSION &&
      memcmp(ring->control->magic, "CIPCCHAN", 8) == 0)
    return fail(error, "PROTOCOL_MISMATCH", "Cannot open \"%s\": its control file has version %u",
                name, ring->control->version);
  if (!check_control(ring))
    return fail(error, "INVALID_DESCRIPTOR", "Cannot open \"%s\": its control file is not valid",
                name);
  ring->first_position = (int64_t)ring->control->first_position;
  ring->room_bell = hub->fds[2];
  hub->fds[2] = -1;
  return 0;
}

/* ---- writing a channel ---- */

struct seat {
  struct memory memory;
  const struct cuda_ipc_page *page;
  int bell;
  bool attached, lossy, had_claim;
  uint64_t lease;
  int64_t released, gpu_released;
  uint32_t rung;
};

struct cuda_ipc_writer {
  struct ring ring;
  struct seat seats[CUDA_IPC_READERS_MAX];
  int64_t next, may_write, limit, sequence;
  /* Of the call that waits. The clock is not read while slots are free: 0 until it was. */
  int64_t timeout_ms, deadline;
  uint32_t epoch, asleep;
  /* Of the last look: whether a lossy reader held a slot, and whether any used streams. */
  bool any_claim, any_stream;
  bool reserved, is_loaned, drops;
};

static cuda_ipc_writer *new_writer(cuda_ipc_error *error) {
  cuda_ipc_writer *writer = calloc(1, sizeof *writer);
  if (writer == NULL) return fail(error, "OUT_OF_MEMORY", "No memory for a channel"), NULL;
  writer->ring.room_bell = -1;
  for (int k = 0; k < CUDA_IPC_READERS_MAX; k++) writer->seats[k].bell = -1;
  return writer;
}

static void free_writer(cuda_ipc_writer *writer) {
  for (uint32_t k = 0; k < writer->ring.readers_max; k++) {
    unmap_memory(&writer->seats[k].memory);
    if (writer->seats[k].bell >= 0) close(writer->seats[k].bell);
  }
  unmap_memory(&writer->ring.control_memory);
  if (writer->ring.room_bell >= 0) close(writer->ring.room_bell);
  free(writer);
}

/* "The creator writes before create": everything that the table gives an initial value. */
static void init_control(const struct ring *ring) {
  struct cuda_ipc_control *control = ring->control;
  memcpy(control->magic, "CIPCCHAN", 8);
  control->version = CUDA_IPC_CHANNEL_VERSION;
  control->slots = (uint32_t)ring->slots;
  control->readers_max = ring->readers_max;
  control->meta_bytes_max = ring->meta_bytes_max;
  control->slot_bytes = (uint64_t)ring->slot_bytes;
  control->slot_stride = (uint64_t)ring->slot_stride;
  control->headers_at = CUDA_IPC_HEADERS_AT;
  control->header_stride = (uint32_t)ring->header_stride;
  control->when_full = ring->when_full;
  control->when_writer_gone = ring->when_writer_gone;
  control->state = CUDA_IPC_WRITER_OPEN;
}

/* Control file, pages and bells; what is made is in the writer, for `free_writer`. */
static int create_words(cuda_ipc_writer *writer, bool preallocate, const char *name, int *fds,
                        cuda_ipc_error *error) {
  struct ring *ring = &writer->ring;
  int64_t bytes = CUDA_IPC_HEADERS_AT + ring->slots * ring->header_stride;
  int control = create_file(bytes, preallocate, name, error);
  if (control < 0) return -1;
  fds[1] = control;
  if (map_file(&ring->control_memory, control, bytes, true, false, name, error) != 0) return -1;
  ring->control = (struct cuda_ipc_control *)ring->control_memory.cpu;
  init_control(ring);
  fds[2] = ring->room_bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (ring->room_bell < 0) return fail_errno(error, "create a bell for", name);
  for (uint32_t k = 0; k < ring->readers_max; k++) {
    struct seat *seat = &writer->seats[k];
    int page = create_file(CUDA_IPC_PAGE_BYTES, preallocate, name, error);
    if (page < 0) return -1;
    fds[3 + 2 * k] = page;
    if (map_file(&seat->memory, page, CUDA_IPC_PAGE_BYTES, true, true, name, error) != 0) return -1;
    seat->page = (const struct cuda_ipc_page *)seat->memory.cpu;
    fds[4 + 2 * k] = seat->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (seat->bell < 0) return fail_errno(error, "create a bell for", name);
  }
  return 0;
}

static int set_ring(struct ring *ring, const char *name, const cuda_ipc_channel_options *options,
                    cuda_ipc_error *error) {
  if (set_layout(&ring->message, name, options->dtype, options->rank, options->shape, 8,
      error) != 0)
    return -1;
  ring->slots = options->slots;
  ring->readers_max = options->readers_max;
  ring->meta_bytes_max = options->meta_bytes_max;
  ring->when_full = options->when_full;
  ring->when_writer_gone = options->when_writer_gone;
  ring->slot_bytes = ring->message.element_count * ring->message.item_bytes;
  ring->slot_stride = (ring->slot_bytes + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
  ring->header_stride = header_stride_of(ring->meta_bytes_max);
  int64_t bytes;
  if (ring->slots >= 1 && ring->slots <= CUDA_IPC_SLOTS_MAX && ring->readers_max >= 1 &&
      ring->readers_max <= CUDA_IPC_READERS_MAX &&
          ring->meta_bytes_max <= CUDA_IPC_META_BYTES_MAX &&
      ring->when_full <= CUDA_IPC_WHEN_FULL_ERROR &&
      ring->when_writer_gone <= CUDA_IPC_WHEN_WRITER_GONE_WAIT && ring->slot_bytes >= 1 &&
      multiply(ring->slot_stride, ring->slots + 1, &bytes))
    return 0;
  return fail(error, "INVALID_DESCRIPTOR",
      "Cannot create \"%s\": slots must be 1 to %d, readers_max "
              "1 to %d, meta_bytes_max at most %d, and a message must not be empty", name,
              CUDA_IPC_SLOTS_MAX, CUDA_IPC_READERS_MAX, CUDA_IPC_META_BYTES_MAX);
}

cuda_ipc_writer *cuda_ipc_writer_create(cuda_ipc_hub *hub, const char *name,
                                        const cuda_ipc_channel_options *options,
                                        cuda_ipc_error *error) {
  int fds[3 + 2 * CUDA_IPC_READERS_MAX];
  struct location location = {.gpu = false};
  struct memory data;
  cuda_ipc_writer *writer = new_writer(error);
  if (writer == NULL) return NULL;
  struct ring *ring = &writer->ring;
  memset(fds, -1, sizeof fds);
  if (set_ring(ring, name, options, error) != 0) return free(writer), NULL;
  bool has_extra = ring->when_full == CUDA_IPC_WHEN_FULL_DROP_NEWEST;
  location.byte_length = ring->slot_stride * (ring->slots + has_extra);
  if (create_memory(&data, &location, options->device, options->preallocate, &fds[0], name,
      error) != 0)
    return free(writer), NULL;
  int status = create_words(writer, options->preallocate, name, fds, error);
  if (status == 0) {
    begin_create(hub, name, false, options->replace, &location);
    add(&hub->sent, "{\"kind\":\"channel\",\"dtype\":\"%s\"", ring->message.layout.dtype);
    add_shape(&hub->sent, "shape", ring->message.layout.shape, ring->message.layout.rank);
    add(&hub->sent, ",\"slots\":%lld,\"readersMax\":%u,\"slotBytes\":%lld,\"slotStride\":%lld,"
             "\"metaBytesMax\":%u,\"whenFull\":\"%s\",\"whenWriterGone\":\"%s\"}",
        (long long)ring->slots, ring->readers_max, (long long)ring->slot_bytes,
        (long long)ring->slot_stride, ring->meta_bytes_max, policies[ring->when_full],
        endings[ring->when_writer_gone]);
    status = finish_create(hub, name, fds, 3 + 2 * (int)ring->readers_max, &ring->lease, error);
  }
  /* Mappings and bells stay; the files need no descriptors any more. */
  close(fds[0]);
  if (fds[1] >= 0) close(fds[1]);
  for (uint32_t k = 0; k < ring->readers_max; k++) if (fds[3 + 2 * k] >= 0) close(fds[3 + 2 * k]);
  if (status != 0) {
    unmap_memory(&data);
    return free_writer(writer), NULL;
  }
  ring->lease.memory = data;
  if (publish(&ring->lease, error) == 0) return writer;
  cuda_ipc_writer_close(writer);
  return NULL;
}

/* Maps what the hub sent: the ring, and the pages and bells of all readers. */
static int map_writer(cuda_ipc_writer *writer, const char *name, cuda_ipc_error *error) {
  cuda_ipc_hub *hub = writer->ring.lease.hub;
  int *fds = hub->fds;
  if (map_ring(&writer->ring, false, name, error) != 0) return -1;
  for (uint32_t k = 0; k < writer->ring.readers_max; k++) {
    struct seat *seat = &writer->seats[k];
    if (map_file(&seat->memory, fds[3 + 2 * k], CUDA_IPC_PAGE_BYTES, true, true, name, error) != 0)
      return -1;
    if (!is_bell(fds[4 + 2 * k])) return fail_bell(name, error);
    seat->page = (const struct cuda_ipc_page *)seat->memory.cpu;
    seat->bell = fds[4 + 2 * k];
    fds[4 + 2 * k] = -1;
  }
  return 0;
}

/* "Taking over": goes on where the last writer stopped, at whatever point it died. */
static int succeed(cuda_ipc_writer *writer, cuda_ipc_error *error) {
  const struct ring *ring = &writer->ring;
  struct cuda_ipc_control *control = ring->control;
  int64_t next = (int64_t)LOAD(&control->published), limit = (int64_t)LOAD(&control->limit);
  int64_t sequence = (int64_t)control->sequence;
  uint32_t epoch = control->epoch;
  bool ended;
  if (LOAD(&control->state) != CUDA_IPC_WRITER_AWAITED)
    return fail(error, "IN_USE", "Cannot write to \"%s\": it awaits no writer", ring->lease.name);
  if (next >= ring->first_position && next <= CUDA_IPC_POSITIONS_MAX) {
    const struct cuda_ipc_header *header = header_of(ring, slot_of(ring, next));
    if ((int64_t)LOAD(&header->generation) == next + 1) {
      /* It died right after its commit. */
      sequence = (int64_t)LOAD(&header->sequence) + 1;
      next += 1;
    } else if ((int64_t)LOAD(&header->passed_over) == next + 1) next += 1;
  }
  if (next < ring->first_position || next > limit || limit > next + ring->slots ||
      limit > INTEGER_MAX || sequence < 0 || sequence > next - ring->first_position)
    return fail(error, "CHANNEL_CORRUPT", "Cannot write to \"%s\": its words contradict each other",
                ring->lease.name);
  int64_t reached = value_of(ready_line(ring, epoch), &ended);
  for (int64_t slot = 0; slot < ring->slots; slot++) {
    struct cuda_ipc_header *header = header_of(ring, slot);
    int64_t generation = (int64_t)LOAD(&header->generation);
    if (generation > 0 && generation <= next && header->epoch == epoch &&
        (int64_t)header->ready_at > reached)
      STORE(&header->flags, LOAD(&header->flags) | CUDA_IPC_FLAG_LOST);
  }
  /* In this order: if this writer dies here, the next one finds the sequence in the header. */
  control->sequence = (uint64_t)sequence;
  STORE(&control->published, (uint64_t)next);
  control->epoch = writer->epoch = epoch + 1;
  STORE(&((struct cuda_ipc_line *)ready_line(ring, writer->epoch))->value, next);
  writer->asleep = (LOAD(&control->asleep) + 1) & ~1u;
  STORE(&control->asleep, writer->asleep);
  writer->next = writer->may_write = next;
  writer->limit = limit;
  writer->sequence = sequence;
  STORE(&control->state, CUDA_IPC_WRITER_OPEN);
  return 0;
}

cuda_ipc_writer *cuda_ipc_writer_resume(cuda_ipc_hub *hub, const char *name, int64_t timeout_ms,
                                        cuda_ipc_error *error) {
  cuda_ipc_writer *writer = new_writer(error);
  if (writer == NULL) return NULL;
  if (open_object(hub, name, CUDA_IPC_READ_WRITE, "writer", timeout_ms, &writer->ring.lease,
                  error) != 0)
    return free(writer), NULL;
  int status = map_writer(writer, name, error);
  close_received(hub);
  if (status == 0) status = succeed(writer, error);
  if (status == 0) return writer;
  end_lease(&writer->ring.lease);
  return free_writer(writer), NULL;
}

const cuda_ipc_layout *cuda_ipc_writer_layout(const cuda_ipc_writer *writer) {
  return &writer->ring.message.layout;
}

int64_t cuda_ipc_writer_sequence(const cuda_ipc_writer *writer) { return writer->sequence; }

static void expel(cuda_ipc_writer *writer, uint32_t k, uint64_t lease) {
  STORE(&writer->ring.control->expelled[k], lease);
  ring_bell(writer->seats[k].bell);
}

/* Looks at one page. False if its words make no sense. */
static bool look_at(cuda_ipc_writer *writer, struct seat *seat, uint64_t expelled) {
  const struct cuda_ipc_page *page = seat->page;
  uint32_t state = LOAD(&page->state);
  seat->attached = seat->had_claim = false;
  if (state == CUDA_IPC_READER_NONE || state == CUDA_IPC_READER_LEFT) return true;
  uint64_t lease = LOAD(&page->lease);
  if (lease == 0 || lease == expelled) return true;
  int64_t released = (int64_t)LOAD(&page->released), gpu = (int64_t)LOAD(&page->gpu_released);
  seat->lossy = LOAD(&page->mode) == CUDA_IPC_MODE_LOSSY ||
                writer->ring.when_full == CUDA_IPC_WHEN_FULL_DROP_OLDEST;
  if (state != CUDA_IPC_READER_ATTACHED || released < 0 || released > writer->next || gpu < 0 ||
      gpu > writer->next || (lease == seat->lease && released < seat->released))
    return false;
  if (seat->lossy)
    for (int c = 0; c < CUDA_IPC_CLAIMS; c++) {
      int64_t claim = LOAD(&page->claims[c]);
      if (claim > writer->next || claim < -writer->next) return false;
      if (claim != 0) seat->had_claim = true;
    }
  seat->attached = true;
  seat->lease = lease;
  seat->released = released;
  seat->gpu_released = gpu;
  return true;
}

/* Positions below the result are free as far as the readers go. */
static int64_t look(cuda_ipc_writer *writer) {
  int64_t bound = INT64_MAX;
  writer->any_claim = writer->any_stream = false;
  for (uint32_t k = 0; k < writer->ring.readers_max; k++) {
    struct seat *seat = &writer->seats[k];
    uint64_t expelled = writer->ring.control->expelled[k];
    /* A second look, because a new reader may just be taking the seat. */
    if (!look_at(writer, seat, expelled) && !look_at(writer, seat, expelled)) {
      expel(writer, k, LOAD(&seat->page->lease));
      continue;
    }
    if (!seat->attached) continue;
    if (seat->lossy) {
      writer->any_claim |= seat->had_claim;
      continue;
    }
    writer->any_stream |= seat->gpu_released > 0;
    if (seat->released + writer->ring.slots < bound) bound = seat->released + writer->ring.slots;
  }
  return bound;
}

/* Whether a lossy reader reads this slot. `by_stream` is set if only a stream still does. */
static bool is_held(const cuda_ipc_writer *writer, int64_t slot, bool *by_stream) {
  for (uint32_t k = 0; k < writer->ring.readers_max; k++) {
    const struct seat *seat = &writer->seats[k];
    if (!seat->attached || !seat->lossy || !seat->had_claim) continue;
    if (LOAD(&seat->page->state) != CUDA_IPC_READER_ATTACHED) continue;
    for (int c = 0; c < CUDA_IPC_CLAIMS; c++) {
      int64_t claim = LOAD(&seat->page->claims[c]);
      int64_t position = claim < 0 ? -(claim + 1) : claim - 1;
      if (claim == 0 || slot_of(&writer->ring, position) != slot) continue;
      if (claim > 0) return true;
      if (LOAD(&seat->page->done[0]) >= -claim) continue;
      *by_stream = true;
      return true;
    }
  }
  return false;
}

static void wake_readers(cuda_ipc_writer *writer) {
  for (uint32_t k = 0; k < writer->ring.readers_max; k++) {
    struct seat *seat = &writer->seats[k];
    ring_once(seat->bell, &seat->page->asleep, &seat->rung);
  }
}

static void go_on(cuda_ipc_writer *writer) {
  writer->next += 1;
  writer->reserved = false;
  STORE(&writer->ring.control->published, (uint64_t)writer->next);
}

static void pass_over(cuda_ipc_writer *writer) {
  const struct ring *ring = &writer->ring;
  STORE(&header_of(ring, slot_of(ring, writer->next))->passed_over, (uint64_t)writer->next + 1);
  go_on(writer);
}

static bool all_held(const cuda_ipc_writer *writer, bool *by_stream) {
  for (int64_t slot = 0; slot < writer->ring.slots; slot++)
    if (!is_held(writer, slot, by_stream)) return false;
  return true;
}

/* Looks at the readers until position `next` may be written, or says that it may not. */
static bool widen(cuda_ipc_writer *writer) {
  int64_t window = writer->ring.slots / 4 > 1 ? writer->ring.slots / 4 : 1;
  int64_t bound = look(writer), target = writer->next + window;
  if (target > bound) target = bound;
  if (target <= writer->next) return false;
  if (target > writer->limit) {
    writer->limit = target;
    /* Before the second look: a reader that it misses sees this. Pairs with `oldest`. */
    STORE(&writer->ring.control->limit, (uint64_t)target);
  }
  bound = look(writer);
  writer->may_write = target < bound ? target : bound;
  return writer->next < writer->may_write;
}

/* "The writer": whether the slot of position `next` is free for it. */
static bool reserve(cuda_ipc_writer *writer, bool *by_stream) {
  int64_t before = writer->next;
  bool found = false;
  if (writer->next < writer->may_write && (writer->reserved || !writer->any_claim))
    return writer->reserved = true;
  /* As many slots as can be held, and some more: readers may claim others meanwhile. */
  int64_t most = CUDA_IPC_CLAIMS * (int64_t)writer->ring.readers_max + CUDA_IPC_LOOKS_MAX;
  for (int64_t i = 0; i <= writer->ring.slots && i <= most; i++) {
    if (writer->next >= writer->may_write && !widen(writer)) break;
    int64_t slot = slot_of(&writer->ring, writer->next);
    if ((found = !writer->any_claim || !is_held(writer, slot, by_stream))) break;
    if (i == 0) {
      look(writer);
      if (all_held(writer, by_stream)) break;
    }
    if ((found = !is_held(writer, slot, by_stream))) break;
    pass_over(writer);
  }
  if (writer->next != before) wake_readers(writer);
  return writer->reserved = found;
}

/* The end of the whole loan: its waits follow each other. */
static int64_t writer_deadline(cuda_ipc_writer *writer) {
  if (writer->deadline == 0) writer->deadline = deadline_in(writer->timeout_ms);
  return writer->deadline;
}

/* Streams of readers may still read a slot that is free. */
static int wait_for_streams(cuda_ipc_writer *writer) {
  if (!writer->any_stream) return 0;
  for (uint32_t k = 0; k < writer->ring.readers_max; k++) {
    const struct seat *seat = &writer->seats[k];
    int64_t wanted = writer->next - writer->ring.slots + 1;
    if (wanted > seat->gpu_released) wanted = seat->gpu_released;
    if (!seat->attached || seat->lossy || wanted <= 0) continue;
    const struct cuda_ipc_line *done = (const struct cuda_ipc_line *)seat->page->done;
    if (LOAD(&done->value) < wanted &&
        wait_for_line(writer->ring.lease.hub, done, wanted, writer_deadline(writer)) == 0)
      return -1;
  }
  return 0;
}

static bool is_own_reader(const cuda_ipc_writer *writer, uint64_t lease);

static int fail_full(cuda_ipc_writer *writer, cuda_ipc_error *error) {
  long long timeout_ms = (long long)writer->timeout_ms;
  const char *name = writer->ring.lease.name;
  for (uint32_t k = 0; k < writer->ring.readers_max; k++) {
    const struct seat *seat = &writer->seats[k];
    if (seat->attached && !seat->lossy && seat->released + writer->ring.slots <= writer->next)
      return fail(error, "TIMEOUT",
                  "Cannot write to \"%s\" within %lld ms: reader %u%s is %lld messages behind",
                  name, timeout_ms, k,
                  is_own_reader(writer, seat->lease) ? " of this process itself" : "",
                  (long long)(writer->next - seat->released));
  }
  bool is_own = false;
  for (uint32_t k = 0; k < writer->ring.readers_max; k++) {
    const struct seat *seat = &writer->seats[k];
    is_own = is_own || (seat->attached && seat->had_claim && is_own_reader(writer, seat->lease));
  }
  return fail(error, "TIMEOUT", "Cannot write to \"%s\" within %lld ms: readers hold all slots%s",
              name, timeout_ms, is_own ? ", one of this process itself among them" : "");
}

/* Waits for room. Returns 0 with it. */
static int wait_for_room(cuda_ipc_writer *writer, cuda_ipc_error *error) {
  struct ring *ring = &writer->ring;
  int64_t deadline = writer_deadline(writer), spin_until = now_us() + SPIN_US;
  bool by_stream = false;
  while (now_us() < spin_until) {
    if (reserve(writer, &by_stream)) return 0;
    relax();
  }
  for (;;) {
    STORE(&ring->control->asleep, ++writer->asleep);
    by_stream = false;
    bool found = reserve(writer, &by_stream);
    bool is_over = now_us() >= deadline;
    if (!found && !is_over && !has_hung_up(ring->lease.hub)) {
      /* A stream that frees a slot rings no bell. */
      int64_t until = by_stream ? now_us() + 1000 : deadline;
      hear_bell(ring->lease.hub, ring->room_bell, until < deadline ? until : deadline);
    }
    STORE(&ring->control->asleep, ++writer->asleep);
    if (found) return 0;
    if (is_over) return fail_full(writer, error);
    if (ring->lease.hub->gone) return hub_gone(ring->lease.hub, error);
  }
}

int cuda_ipc_writer_readers(cuda_ipc_writer *writer) {
  int count = 0;
  for (uint32_t k = 0; k < writer->ring.readers_max; k++) {
    const struct cuda_ipc_page *page = writer->seats[k].page;
    uint64_t lease = LOAD(&page->lease);
    count += LOAD(&page->state) == CUDA_IPC_READER_ATTACHED && lease != 0 &&
             lease != writer->ring.control->expelled[k];
  }
  return count;
}

int cuda_ipc_writer_loan(cuda_ipc_writer *writer, cuda_ipc_slot *slot, int64_t timeout_ms,
                         cuda_ipc_error *error) {
  struct ring *ring = &writer->ring;
  bool by_stream = false;
  if (writer->next > CUDA_IPC_POSITIONS_MAX)
    return fail(error, "LIMIT_EXCEEDED", "Channel \"%s\" has no positions left", ring->lease.name);
  writer->drops = false;
  writer->timeout_ms = timeout_ms;
  writer->deadline = 0;
  if (!reserve(writer, &by_stream)) {
    if (ring->when_full == CUDA_IPC_WHEN_FULL_ERROR)
      return fail(error, "CHANNEL_FULL", "Cannot write to \"%s\": all %lld slots are taken",
                  ring->lease.name, (long long)ring->slots);
    if (ring->when_full == CUDA_IPC_WHEN_FULL_DROP_NEWEST) writer->drops = true;
    else if (wait_for_room(writer, error) != 0) return -1;
  }
  if (!writer->drops && wait_for_streams(writer) != 0) {
    if (ring->lease.hub->gone) return hub_gone(ring->lease.hub, error);
    return fail(error, "TIMEOUT", "Cannot write to \"%s\" within %lld ms: a reader's stream still "
                "reads the slot", ring->lease.name, (long long)timeout_ms);
  }
  /* Behind the last slot is the one whose messages are dropped. */
  int64_t at = (writer->drops ? ring->slots : slot_of(ring, writer->next)) * ring->slot_stride;
  const struct memory *memory = &ring->lease.memory;
  *slot = (cuda_ipc_slot){.bytes_max = ring->slot_bytes};
  if (memory->cpu != NULL) slot->data = memory->cpu + at;
  else slot->device_data = memory->device + (uint64_t)at;
  writer->is_loaned = true;
  return 0;
}

int cuda_ipc_writer_commit(cuda_ipc_writer *writer, int64_t byte_length, const void *meta,
                           uint32_t meta_bytes, uint32_t flags, cuda_ipc_error *error) {
  struct ring *ring = &writer->ring;
  struct timespec now;
  if (!writer->is_loaned)
    return fail(error, "CLOSED", "Cannot commit to \"%s\": no slot is loaned", ring->lease.name);
  if (byte_length < 0 || byte_length > ring->slot_bytes ||
      !is_whole(&ring->message, byte_length) || meta_bytes > ring->meta_bytes_max ||
      (flags & ~(uint32_t)CUDA_IPC_FLAG_JSON) != 0)
    return fail(error, "INVALID_DESCRIPTOR",
        "Cannot commit %lld bytes with %u of meta to \"%s\": at most "
                "%lld and %u, in whole elements of %lld", (long long)byte_length, meta_bytes,
                ring->lease.name, (long long)ring->slot_bytes, ring->meta_bytes_max,
                (long long)ring->message.item_bytes);
  writer->is_loaned = false;
  if (writer->drops) {
    ring->control->dropped += 1;
    return 0;
  }
  struct cuda_ipc_header *header = header_of(ring, slot_of(ring, writer->next));
  clock_gettime(CLOCK_REALTIME, &now);
  header->sequence = (uint64_t)writer->sequence;
  header->timestamp_ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
  header->byte_length = (uint64_t)byte_length;
  header->ready_at = 0;
  header->epoch = writer->epoch;
  __atomic_store_n(&header->flags, flags, __ATOMIC_RELAXED);
  header->meta_bytes = meta_bytes;
  header->rank = 0;
  if (meta_bytes > 0) memcpy(header + 1, meta, meta_bytes);
  /* The commit: readers see the message from here on. */
  STORE(&header->generation, (uint64_t)writer->next + 1);
  ring->control->sequence = (uint64_t)++writer->sequence;
  writer->next += 1;
  writer->reserved = false;
  __atomic_store_n(&ring->control->published, (uint64_t)writer->next, __ATOMIC_RELEASE);
  wake_readers(writer);
  return 0;
}

int cuda_ipc_writer_copy(cuda_ipc_writer *writer, const cuda_ipc_slot *slot, const void *from,
                         size_t bytes, cuda_ipc_error *error) {
  const struct memory *memory = &writer->ring.lease.memory;
  if (writer->is_loaned && bytes <= (size_t)slot->bytes_max)
    return copy_in(memory, slot->data, slot->device_data, from, bytes, error);
  return fail(error, "INVALID_DESCRIPTOR",
      "Cannot copy %zu bytes to \"%s\": a slot has %lld, and it "
              "must be loaned", bytes, writer->ring.lease.name, (long long)slot->bytes_max);
}

static void leave_channel(cuda_ipc_writer *writer, uint32_t state) {
  end_line((struct cuda_ipc_line *)ready_line(&writer->ring, writer->epoch));
  STORE(&writer->ring.control->state, state);
  wake_readers(writer);
  end_lease(&writer->ring.lease);
  free_writer(writer);
}

void cuda_ipc_writer_close(cuda_ipc_writer *writer) {
  if (writer == NULL) return;
  bool is_left = writer->ring.when_writer_gone == CUDA_IPC_WHEN_WRITER_GONE_WAIT;
  leave_channel(writer, is_left ? CUDA_IPC_WRITER_AWAITED : CUDA_IPC_WRITER_CLOSED);
}

void cuda_ipc_writer_end(cuda_ipc_writer *writer) {
  if (writer != NULL) leave_channel(writer, CUDA_IPC_WRITER_CLOSED);
}

/* ---- reading a channel ---- */

#define NOTHING 0
#define TAKEN 1

struct cuda_ipc_reader {
  struct ring ring;
  struct memory page_memory;
  struct cuda_ipc_page *page;
  int bell;
  uint32_t seat, rung, asleep;
  bool lossy, is_outrun; /* the writer had moved on at each look of the last take */
  int64_t next, expected; /* sequence; -1: any */
  int64_t missed, told_missed, received;
  int64_t held_from; /* the smallest position that is held, or `next` */
  uint8_t *is_taken;  /* by slot */
  void *meta;         /* of the latest message without data, which holds no slot */
  cuda_ipc_reader *next_of_hub;
  /* Of the call that waits. The clock is not read while messages come: 0 until it was. */
  int64_t timeout_ms, deadline;
};

static bool is_own_reader(const cuda_ipc_writer *writer, uint64_t lease) {
  const cuda_ipc_reader *reader = writer->ring.lease.hub->readers;
  while (reader != NULL && (uint64_t)reader->ring.lease.lease != lease) reader = reader->next_of_hub;
  return reader != NULL;
}

/* Messages that the program has not released. */
static int held_count(const cuda_ipc_reader *reader) {
  int count = 0;
  for (int64_t slot = 0; slot < reader->ring.slots; slot++) count += reader->is_taken[slot];
  return count;
}

static int64_t reader_deadline(cuda_ipc_reader *reader) {
  if (reader->deadline == 0) reader->deadline = deadline_in(reader->timeout_ms);
  return reader->deadline;
}

static int corrupt(cuda_ipc_reader *reader, const char *what, cuda_ipc_error *error) {
  const char *name = reader->ring.lease.name;
  /* The writer goes over a reader that it has expelled. */
  if (LOAD(&reader->ring.control->expelled[reader->seat]) == (uint64_t)reader->ring.lease.lease)
    return fail(error, "READER_EXPELLED", "Cannot read \"%s\": its writer has expelled this reader",
        name);
  return fail(error, "CHANNEL_CORRUPT", "Cannot read \"%s\": its writer wrote an invalid %s", name,
      what);
}

/* The oldest position that is still there; -1 if the words make no sense. */
static int64_t oldest(const cuda_ipc_reader *reader) {
  const struct ring *ring = &reader->ring;
  int64_t limit = (int64_t)LOAD(&ring->control->limit);
  if (limit < reader->next || limit > INTEGER_MAX) return -1;
  int64_t from = limit - ring->slots;
  /* `published` after the limit, which is at most one ring's length beyond it. */
  if (from > reader->next && from > (int64_t)LOAD(&ring->control->published)) return -1;
  return from > ring->first_position ? from : ring->first_position;
}

static bool is_message(const cuda_ipc_reader *reader, int64_t position) {
  const struct ring *ring = &reader->ring;
  return (int64_t)LOAD(&header_of(ring, slot_of(ring, position))->generation) == position + 1;
}

/* Lossy: the sequence of the next message from p on; -1 if it is not known, also because the writer
 * was faster until no header was left to look at; -2 if p has gone. */
static int64_t sequence_at(const cuda_ipc_reader *reader, int64_t p, int64_t *headers_left) {
  const struct ring *ring = &reader->ring;
  if (p == ring->first_position) return 0;
  while ((*headers_left)-- > 0) {
    int64_t published = (int64_t)LOAD(&ring->control->published), found = -1, sequence = 0;
    int64_t end = published < p + ring->slots ? published : p + ring->slots;
    for (int64_t a = p; a < end && found < 0 && (*headers_left)-- > 0; a++)
      if (is_message(reader, a)) {
        found = a;
        sequence = (int64_t)LOAD(&header_of(ring, slot_of(ring, a))->sequence);
      }
    /* Not from the oldest alone: a writer that lowers its limit would make this take for ever. */
    int64_t first = oldest(reader);
    if (first < p - ring->slots) first = p - ring->slots;
    for (int64_t a = p - 1; a >= first && a >= 0 && found < 0 && (*headers_left)-- > 0; a--)
      if (is_message(reader, a)) {
        found = a;
        sequence = (int64_t)LOAD(&header_of(ring, slot_of(ring, a))->sequence) + 1;
      }
    int64_t from = oldest(reader);
    if (p < from) return -2;
    if (found < 0 && (int64_t)LOAD(&ring->control->published) == published) return -1;
    if (found >= from && found >= 0) return sequence;
  }
  return -1;
}

/* Where it begins; -1 if the words make no sense. `next` is what was published. */
static int64_t start_at(const cuda_ipc_reader *reader, const char *from) {
  int64_t published = reader->next, first = oldest(reader);
  if (first < 0) return -1;
  if (from != NULL && strcmp(from, "oldest") == 0) {
    int64_t p = published - reader->ring.slots;
    return p > first ? p : first;
  }
  if (from != NULL && strcmp(from, "latest") == 0)
    for (int64_t p = published - 1; p >= first; p--)
      if (is_message(reader, p)) return p >= oldest(reader) ? p : start_at(reader, NULL);
  return published > first ? published : first;
}

static void wake_writer(cuda_ipc_reader *reader) {
  ring_once(reader->ring.room_bell, &reader->ring.control->asleep, &reader->rung);
}

static int attach(cuda_ipc_reader *reader, const char *from, cuda_ipc_error *error) {
  struct cuda_ipc_page *page = reader->page;
  reader->next = (int64_t)LOAD(&reader->ring.control->published);
  if (reader->next < reader->ring.first_position) return corrupt(reader, "position", error);
  int64_t p = start_at(reader, from), x;
  if (p < 0) return corrupt(reader, "limit", error);
  reader->asleep = (LOAD(&page->asleep) + 1) & ~1u;
  STORE(&page->asleep, reader->asleep);
  STORE(&page->mode, reader->lossy ? CUDA_IPC_MODE_LOSSY : CUDA_IPC_MODE_WAITED_FOR);
  STORE(&page->done[0], p);
  STORE(&page->released, (uint64_t)p);
  STORE(&page->state, CUDA_IPC_READER_ATTACHED);
  /* The second look: the writer may have gone on before it could see this reader. */
  bool moved = false;
  int looks = 0;
  /* If nearly all positions were passed over, the header that tells is two rings away. */
  int64_t headers_left = 2 * reader->ring.slots + CUDA_IPC_LOOKS_MAX;
  x = oldest(reader);
  do {
    if (p < x) {
      p = x;
      moved = true;
      STORE(&page->done[0], p);
      STORE(&page->released, (uint64_t)p);
    }
    reader->expected = reader->lossy ? sequence_at(reader, p, &headers_left) : -1;
    x = oldest(reader);
    /* The writer waits for a reader that is not lossy. A lossy one may begin behind: its first claim
     * finds where the writer is. */
    if (x < 0 || (++looks == CUDA_IPC_LOOKS_MAX && p < x && !reader->lossy))
      return corrupt(reader, "limit", error);
  } while (p < x && looks < CUDA_IPC_LOOKS_MAX);
  if (moved) wake_writer(reader);
  reader->next = reader->held_from = p;
  return 0;
}

/* Maps what the hub sent: the ring, and a page and a bell of its own. */
static int map_reader(cuda_ipc_reader *reader, const char *name, cuda_ipc_error *error) {
  cuda_ipc_hub *hub = reader->ring.lease.hub;
  int64_t seat;
  if (map_ring(&reader->ring, true, name, error) != 0) return -1;
  if (!integer(&hub->json, member(&hub->json, hub->result, "place"), 0,
               reader->ring.readers_max - 1, &seat))
    return fail(error, "INVALID_MESSAGE", "Cannot open \"%s\": the hub gave it no place", name);
  if (!is_bell(hub->fds[4])) return fail_bell(name, error);
  reader->seat = (uint32_t)seat;
  if (map_file(&reader->page_memory, hub->fds[3], CUDA_IPC_PAGE_BYTES, true, false, name,
               error) != 0)
    return -1;
  reader->page = (struct cuda_ipc_page *)reader->page_memory.cpu;
  reader->bell = hub->fds[4];
  hub->fds[4] = -1;
  return 0;
}

static void free_reader(cuda_ipc_reader *reader) {
  cuda_ipc_reader **link = &reader->ring.lease.hub->readers;
  while (*link != NULL && *link != reader) link = &(*link)->next_of_hub;
  if (*link == reader) *link = reader->next_of_hub;
  unmap_memory(&reader->page_memory);
  if (reader->bell >= 0) close(reader->bell);
  close_ring(&reader->ring);
  free(reader->is_taken);
  free(reader->meta);
  free(reader);
}

cuda_ipc_reader *cuda_ipc_reader_open(cuda_ipc_hub *hub, const char *name,
                                      const cuda_ipc_reader_options *options,
                                      cuda_ipc_error *error) {
  cuda_ipc_reader *reader = calloc(1, sizeof *reader);
  if (reader == NULL) return fail(error, "OUT_OF_MEMORY", "No memory for a reader"), NULL;
  reader->bell = reader->ring.room_bell = -1;
  if (options->from != NULL && strcmp(options->from, "next") != 0 &&
      strcmp(options->from, "oldest") != 0 && strcmp(options->from, "latest") != 0) {
    fail(error, "INVALID_DESCRIPTOR",
        "Cannot open \"%s\" from \"%s\": it is next, oldest or latest", name,
         options->from);
    return free(reader), NULL;
  }
  if (open_object(hub, name, CUDA_IPC_READ, "reader", options->timeout_ms, &reader->ring.lease,
                  error) != 0)
    return free(reader), NULL;
  int status = map_reader(reader, name, error);
  close_received(hub);
  if (status == 0) {
    reader->lossy = options->lossy || reader->ring.when_full == CUDA_IPC_WHEN_FULL_DROP_OLDEST;
    reader->is_taken = calloc((size_t)reader->ring.slots, 1);
    reader->meta = malloc((size_t)reader->ring.meta_bytes_max + 1);
    status = reader->is_taken == NULL || reader->meta == NULL
                 ? fail(error, "OUT_OF_MEMORY", "No memory for a reader")
                 : attach(reader, options->from, error);
  }
  if (status == 0) {
    reader->next_of_hub = hub->readers;
    return hub->readers = reader;
  }
  return free_reader(reader), NULL;
}

int64_t cuda_ipc_reader_missed(const cuda_ipc_reader *reader) { return reader->missed; }

const cuda_ipc_layout *cuda_ipc_reader_layout(const cuda_ipc_reader *reader) {
  return &reader->ring.message.layout;
}

static void give_back(cuda_ipc_reader *reader) {
  const struct ring *ring = &reader->ring;
  while (reader->held_from < reader->next && !reader->is_taken[slot_of(ring, reader->held_from)])
    reader->held_from++;
  reader->page->received = (uint64_t)reader->received;
  reader->page->missed = (uint64_t)reader->missed;
  STORE(&reader->page->released, (uint64_t)reader->held_from);
  wake_writer(reader);
}

/* Copies the header of a message and checks the copy. Returns 0 if it makes sense. */
static int read_header(cuda_ipc_reader *reader, const struct cuda_ipc_header *header,
                       cuda_ipc_message *message, uint32_t *flags, uint32_t *epoch,
                           int64_t *ready_at,
                       cuda_ipc_error *error) {
  const struct ring *ring = &reader->ring;
  *flags = LOAD(&header->flags);
  *epoch = header->epoch;
  *ready_at = (int64_t)header->ready_at;
  message->sequence = (int64_t)header->sequence;
  message->byte_length = (int64_t)header->byte_length;
  message->meta_bytes = header->meta_bytes;
  message->timestamp_ms = header->timestamp_ms;
  message->rank = 0;
  message->meta_is_json = (*flags & CUDA_IPC_FLAG_JSON) != 0;
  if (message->byte_length < 0 || message->byte_length > ring->slot_bytes ||
      message->meta_bytes > ring->meta_bytes_max || *ready_at < 0 || *ready_at > reader->next + 1 ||
      *flags > 7 || message->sequence < 0 || message->sequence > INTEGER_MAX ||
      message->sequence < reader->expected)
    return corrupt(reader, "header", error);
  if ((*flags & CUDA_IPC_FLAG_SHAPED) == 0)
    return is_whole(&ring->message, message->byte_length) ? 0 : corrupt(reader, "length", error);
  int64_t bytes = ring->message.item_bytes;
  uint32_t rank = header->rank;
  if (rank > 8) return corrupt(reader, "rank", error);
  message->rank = (int)rank;
  for (uint32_t axis = 0; axis < rank; axis++) {
    message->shape[axis] = (int64_t)header->shape[axis];
    if (message->shape[axis] < 0 || !multiply(bytes, message->shape[axis], &bytes))
      return corrupt(reader, "shape", error);
  }
  return bytes == message->byte_length ? 0 : corrupt(reader, "shape", error);
}

/* Lossy: announces that `next` is read. Returns the claim, -1 if the writer has gone over it,
 * or -2. */
static int claim(cuda_ipc_reader *reader, cuda_ipc_error *error) {
  struct cuda_ipc_page *page = reader->page;
  int c = 0;
  while (c < CUDA_IPC_CLAIMS && page->claims[c] != 0) c++;
  if (c == CUDA_IPC_CLAIMS)
    return fail(error, "IN_USE",
                "Cannot take a message of \"%s\": this process itself (process %d) holds %d that are "
                "not released, the most of a lossy reader",
                reader->ring.lease.name, (int)getpid(), CUDA_IPC_CLAIMS), -2;
  STORE(&page->claims[c], reader->next + 1);
  int64_t from = oldest(reader);
  if (from >= 0 && reader->next >= from) return c;
  STORE(&page->claims[c], 0);
  wake_writer(reader);
  if (from < 0) return corrupt(reader, "limit", error), -2;
  reader->next = reader->held_from = from;
  return -1;
}

static int check_expelled(cuda_ipc_reader *reader, cuda_ipc_error *error) {
  const struct ring *ring = &reader->ring;
  bool is_expelled = LOAD(&ring->control->expelled[reader->seat]) == (uint64_t)ring->lease.lease;
  return is_expelled ? corrupt(reader, "page", error) : NOTHING;
}

/* "Take a message": TAKEN, NOTHING or -1. Waits for the writer's stream, if it has to finish it. */
static int take(cuda_ipc_reader *reader, cuda_ipc_message *message, cuda_ipc_error *error) {
  const struct ring *ring = &reader->ring;
  reader->is_outrun = false;
  for (int looks = 0; looks < CUDA_IPC_LOOKS_MAX; looks++) {
    int64_t slot = slot_of(ring, reader->next), wanted = reader->next + 1;
    struct cuda_ipc_header *header = header_of(ring, slot);
    int64_t generation = (int64_t)LOAD(&header->generation);
    int64_t passed = (int64_t)LOAD(&header->passed_over);
    if (generation < wanted && passed < wanted) return check_expelled(reader, error);
    int c = -1;
    if (!reader->lossy) {
      if (reader->is_taken[slot])
        return fail(error, "IN_USE", "Cannot take a message of \"%s\": all slots are held",
                    ring->lease.name);
    } else {
      c = claim(reader, error);
      if (c == -2) return -1;
      if (c == -1) continue;
      generation = (int64_t)LOAD(&header->generation);
      passed = (int64_t)LOAD(&header->passed_over);
    }
    if (generation == wanted) {
      uint32_t flags, epoch;
      int64_t ready_at;
      if (read_header(reader, header, message, &flags, &epoch, &ready_at, error) != 0) return -1;
      if (reader->expected >= 0) reader->missed += message->sequence - reader->expected;
      reader->expected = message->sequence + 1;
      int ready = 1;
      if (ready_at > 0 && (flags & CUDA_IPC_FLAG_LOST) == 0) {
        const struct cuda_ipc_line *line = ready_line(ring, epoch);
        ready = wait_for_line(ring->lease.hub, line, ready_at, reader_deadline(reader));
        if (ready == 0) {
          /* The next call takes it again. */
          reader->expected = message->sequence;
          if (c >= 0) STORE(&reader->page->claims[c], 0);
          return ring->lease.hub->gone ? hub_gone(ring->lease.hub, error) : NOTHING;
        }
      }
      if ((flags & CUDA_IPC_FLAG_LOST) == 0 && ready > 0) {
        const struct memory *memory = &ring->lease.memory;
        int64_t at = slot * ring->slot_stride;
        message->data = memory->cpu == NULL ? NULL : memory->cpu + at;
        message->device_data = memory->cpu == NULL ? memory->device + (uint64_t)at : 0;
        message->meta = header + 1;
        bool holds = message->byte_length > 0;
        if (!holds && reader->meta != NULL)
          message->meta = memcpy(reader->meta, header + 1, message->meta_bytes);
        message->position = reader->next;
        message->missed = reader->missed - reader->told_missed;
        reader->told_missed = reader->missed;
        reader->received += 1;
        reader->is_taken[slot] = holds;
        reader->next += 1;
        if (holds) return TAKEN;
        if (c >= 0) STORE(&reader->page->claims[c], 0);
        give_back(reader);
        return TAKEN;
      }
      reader->missed += 1;
    } else {
      bool has_passed = passed == wanted || (reader->lossy && passed > wanted &&
                                             reader->next < (int64_t)LOAD(&ring->control->limit));
      if (!has_passed) return corrupt(reader, "generation", error);
    }
    if (c >= 0) STORE(&reader->page->claims[c], 0);
    reader->next += 1;
    give_back(reader);
  }
  reader->is_outrun = true;
  return check_expelled(reader, error);
}

/* At the end of the channel: what was overwritten after the last message. */
static void count_rest(cuda_ipc_reader *reader) {
  int64_t sequence = (int64_t)reader->ring.control->sequence;
  /* It can be one less: a writer that died had not counted its last message yet. */
  if (reader->expected < 0 || sequence <= reader->expected) return;
  reader->missed += sequence - reader->expected;
  reader->expected = sequence;
  reader->page->missed = (uint64_t)reader->missed;
}

static bool slot_has_news(const cuda_ipc_reader *reader) {
  const struct ring *ring = &reader->ring;
  const struct cuda_ipc_header *header = header_of(ring, slot_of(ring, reader->next));
  return (int64_t)LOAD(&header->generation) > reader->next ||
         (int64_t)LOAD(&header->passed_over) > reader->next;
}

/* Whether there is something to look at before it sleeps. */
static bool has_news(const cuda_ipc_reader *reader) {
  uint32_t state = LOAD(&reader->ring.control->state);
  return slot_has_news(reader) || state == CUDA_IPC_WRITER_CLOSED || state == CUDA_IPC_WRITER_GONE;
}

int cuda_ipc_reader_next(cuda_ipc_reader *reader, cuda_ipc_message *message, int64_t timeout_ms,
                         cuda_ipc_error *error) {
  struct ring *ring = &reader->ring;
  int64_t spin_until = 0;
  reader->timeout_ms = timeout_ms;
  reader->deadline = 0;
  for (;;) {
    /* The slot alone: each look at the control page takes a line from the writer's cache. */
    for (int looks = 0; looks < LOOKS_AT_SLOT && !slot_has_news(reader); looks++) relax();
    int taken = take(reader, message, error);
    if (taken != NOTHING) return taken;
    uint32_t state = LOAD(&ring->control->state);
    if (state == CUDA_IPC_WRITER_CLOSED || state == CUDA_IPC_WRITER_GONE) {
      taken = take(reader, message, error);
      if (taken != NOTHING) return taken;
      count_rest(reader);
      if (state == CUDA_IPC_WRITER_CLOSED) return 0;
      return fail(error, "PEER_GONE", "Cannot read \"%s\": its writer has died", ring->lease.name);
    }
    if (state > CUDA_IPC_WRITER_AWAITED) return corrupt(reader, "state", error);
    int64_t now = now_us();
    if (spin_until == 0) spin_until = now + SPIN_US;
    if (now >= reader_deadline(reader)) {
      int held = held_count(reader);
      /* Nothing can come before it releases the oldest one. */
      if (reader->lossy ? held == ring->slots : reader->next - reader->held_from == ring->slots)
        return fail(error, "TIMEOUT",
                    "Cannot read \"%s\" within %lld ms: no slot is free, and this process itself "
                    "(process %d) holds %d of its messages that are not released",
                    ring->lease.name, (long long)timeout_ms, (int)getpid(), held);
      return fail(error, "TIMEOUT", "Cannot read \"%s\" within %lld ms: %s", ring->lease.name,
                  (long long)timeout_ms, reader->is_outrun
                      ? "its writer never stops changing its words" : "no message came");
    }
    if (now < spin_until) {
      relax();
      continue;
    }
    STORE(&reader->page->asleep, ++reader->asleep);
    if (!has_news(reader) && !has_hung_up(ring->lease.hub))
      hear_bell(ring->lease.hub, reader->bell, reader_deadline(reader));
    STORE(&reader->page->asleep, ++reader->asleep);
    if (ring->lease.hub->gone && !has_news(reader)) return hub_gone(ring->lease.hub, error);
  }
}

int cuda_ipc_reader_copy(const cuda_ipc_reader *reader, const cuda_ipc_message *message, void *to,
                         size_t bytes, cuda_ipc_error *error) {
  const struct memory *memory = &reader->ring.lease.memory;
  if (bytes <= (size_t)message->byte_length)
    return copy_out(memory, message->data, message->device_data, to, bytes, error);
  return fail(error, "INVALID_DESCRIPTOR",
      "Cannot copy %zu bytes of a message of \"%s\": it has %lld",
              bytes, reader->ring.lease.name, (long long)message->byte_length);
}

void cuda_ipc_reader_release(cuda_ipc_reader *reader, const cuda_ipc_message *message) {
  int64_t slot = slot_of(&reader->ring, message->position);
  if (message->byte_length == 0) return; /* another message may have its slot */
  if (message->position >= reader->next || !reader->is_taken[slot]) return;
  if (reader->lossy)
    for (int c = 0; c < CUDA_IPC_CLAIMS; c++)
      if (reader->page->claims[c] == message->position + 1) STORE(&reader->page->claims[c], 0);
  reader->is_taken[slot] = 0;
  give_back(reader);
}

void cuda_ipc_reader_close(cuda_ipc_reader *reader) {
  if (reader == NULL) return;
  for (int c = 0; c < CUDA_IPC_CLAIMS; c++) STORE(&reader->page->claims[c], 0);
  STORE(&reader->page->state, CUDA_IPC_READER_LEFT);
  wake_writer(reader);
  free_reader(reader);
}
