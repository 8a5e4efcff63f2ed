/*
 * The wake-ups of a round trip through two bridges, and nothing else: a process rings the bell of a
 * relay, which sends 8 bytes by TCP to a relay that rings the bell of another process; and back. Each
 * of them sleeps until it is woken. It is the least that two bridges can take.
 * Usage: relay receive ADDRESS
 *        relay send ADDRESS ROUND-TRIPS PORT
 * The receiver prints its port, the sender the figures.
 */
#include "common.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/* The one that the relay waits for, and the one that it rings. */
struct bells { int to_relay, from_relay; };

static struct bells create_bells(void) {
  struct bells bells = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};
  if (bells.to_relay < 0 || bells.from_relay < 0) fail("eventfd: %s", strerror(errno));
  return bells;
}

static void ring(int bell) {
  uint64_t one = 1;
  if (write(bell, &one, sizeof one) != sizeof one) fail("ring: %s", strerror(errno));
}

static void await_bell(int bell) {
  uint64_t count;
  struct pollfd waits = {.fd = bell, .events = POLLIN};
  if (poll(&waits, 1, (int)(LIMIT_US / 1e3)) != 1) fail("timed out: a bell does not ring");
  if (read(bell, &count, sizeof count) != sizeof count) fail("silence: %s", strerror(errno));
}

/* Until the other side closes the connection. */
static void relay(int connection, struct bells bells) {
  int on = 1, polls = epoll_create1(EPOLL_CLOEXEC);
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  int watched[] = {connection, bells.to_relay};
  for (int i = 0; i < 2; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = watched[i]};
    if (epoll_ctl(polls, EPOLL_CTL_ADD, watched[i], &event) != 0) fail("epoll: %s", strerror(errno));
  }
  for (;;) {
    struct epoll_event event;
    uint64_t message = 0;
    if (epoll_wait(polls, &event, 1, -1) != 1) fail("epoll: %s", strerror(errno));
    if (event.data.fd == connection) {
      ssize_t count = recv(connection, &message, sizeof message, MSG_WAITALL);
      if (count == 0) return;
      if (count != sizeof message) fail("recv: %s", strerror(errno));
      ring(bells.from_relay);
    } else {
      await_bell(bells.to_relay);
      if (send(connection, &message, sizeof message, MSG_NOSIGNAL) != sizeof message) fail("send: %s", strerror(errno));
    }
  }
}

static int forked(void) {
  pid_t child = fork();
  if (child < 0) fail("fork: %s", strerror(errno));
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return child == 0;
}

static void receive_side(int listener, struct sockaddr_in address) {
  socklen_t length = sizeof address;
  if (bind(listener, (void *)&address, length) != 0 || listen(listener, 1) != 0) fail("listen: %s", strerror(errno));
  getsockname(listener, (void *)&address, &length);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  int connection = accept(listener, NULL, NULL);
  if (connection < 0) fail("accept: %s", strerror(errno));
  struct bells bells = create_bells();
  if (!forked()) {
    relay(connection, bells);
    return;
  }
  for (;;) {
    await_bell(bells.from_relay);
    ring(bells.to_relay);
  }
}

static void send_side(int connection, struct sockaddr_in address, struct arguments arguments) {
  struct samples samples = {0};
  struct bells bells = create_bells();
  if (connect(connection, (void *)&address, sizeof address) != 0) fail("connect: %s", strerror(errno));
  if (forked()) {
    relay(connection, bells);
    exit(0);
  }
  for (long i = 1; i <= arguments.warm_up + arguments.iterations; i++) {
    double start_us = now_us();
    ring(bells.to_relay);
    await_bell(bells.from_relay);
    if (i > arguments.warm_up) add_sample(&samples, now_us() - start_us);
  }
  report("relay", arguments.iterations, &samples);
}

int main(int argc, char **argv) {
  int is_sender = argc == 5 && strcmp(argv[1], "send") == 0;
  if (!is_sender && argc != 3) fail("Usage: %s receive ADDRESS, or send ADDRESS ROUND-TRIPS PORT", argv[0]);
  struct sockaddr_in address = {.sin_family = AF_INET};
  if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) fail("no address: %s", argv[2]);
  int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (!is_sender) {
    receive_side(tcp, address);
    return 0;
  }
  address.sin_port = htons((uint16_t)atoi(argv[4]));
  send_side(tcp, address, parse_arguments(2, argv + 2));
  return 0;
}
