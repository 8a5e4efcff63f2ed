/* Unix sockets of both types, and messages with any number of descriptors. */
#ifndef TEST_FD_MESSAGES_H
#define TEST_FD_MESSAGES_H

#include "common.h"
#include <sys/socket.h>
#include <sys/un.h>

static inline int socket_type(const char *name) { return strcmp(name, "stream") == 0 ? SOCK_STREAM : SOCK_SEQPACKET; }

static inline struct sockaddr_un address_of(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) fail("%s is too long", path);
  strcpy(address.sun_path, path);
  return address;
}

static inline int connect_to(const char *type, const char *path) {
  struct sockaddr_un address = address_of(path);
  int fd = socket(AF_UNIX, socket_type(type) | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("connect to %s", path);
  return fd;
}

static inline int accept_at(const char *type, const char *path) {
  struct sockaddr_un address = address_of(path);
  int listener = socket(AF_UNIX, socket_type(type) | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0) fail("listen at %s", path);
  if (listen(listener, 1) < 0) fail("listen at %s", path);
  say("listens");
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) fail("accept");
  close(listener);
  return fd;
}

static inline void send_fds(int socket, const void *bytes, size_t byte_length, const int *fds, int count) {
  char control[CMSG_SPACE(8 * sizeof(int))] = {0};
  struct iovec part = {(void *)bytes, byte_length};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != (ssize_t)byte_length) fail("send");
}

/* Receives exactly so many bytes and one descriptor. */
static inline int receive_fd(int socket, void *bytes, size_t byte_length) {
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {bytes, byte_length};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  int fd;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != (ssize_t)byte_length) fail("receive");
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  if (rights == NULL || rights->cmsg_type != SCM_RIGHTS) fail("no descriptor came");
  memcpy(&fd, CMSG_DATA(rights), sizeof fd);
  return fd;
}

/* The one byte that says that the other side has the memory. */
static inline void await_acknowledgement(int socket) {
  char byte;
  if (recv(socket, &byte, 1, 0) != 1) fail("no acknowledgement came");
  say("acknowledged");
}

static inline void acknowledge(int socket) {
  if (send(socket, "a", 1, MSG_NOSIGNAL) != 1) fail("acknowledge");
}

#endif
