/**
 * Polls descriptors for a worker thread, so that the thread can be terminated at any moment.
 * WHY not koffi's poll handles: a terminated thread still finishes its turn of the event loop.
 * koffi then calls JavaScript, is refused, and ends the process with SIGABRT. Node's own sockets
 * call nothing then, but take only sockets. So a UDP socket of Node watches an epoll file under the
 * socket's number. When a descriptor is ready, Node reports that this is not a socket (ENOTSOCK)
 * and keeps watching.
 */
import { createSocket, type Socket } from "node:dgram";
import { acquireIn } from "../base/scope.js";
import { type Libc, libc } from "../ffi/libc.js";
import { OwnedFd } from "./owned-fd.js";
import { SOCK_CLOEXEC, SOCK_DGRAM } from "./socket-layout.js";
import { systemError } from "./system-error.js";

export interface PollEvents {
  readonly readable?: boolean;
  readonly writable?: boolean;
  /** The other side hung up. */
  readonly disconnect?: boolean;
}

const AF_INET = 2;
const O_CLOEXEC = 0o2000000;
const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLLIN = 0x1;
const EPOLLOUT = 0x4;
const EPOLLRDHUP = 0x2000;

/** struct epoll_event: u32 events, u64 data. It is packed only on x86-64. */
const EVENT_BYTES = process.arch === "x64" ? 12 : 16;
const DATA_AT = EVENT_BYTES - 8;
const EVENTS_MAX = 64;

class ThreadPoll {
  readonly #epoll: OwnedFd;
  readonly #socket: Socket;
  readonly #handles = new Map<number, ThreadPollHandle>();
  readonly #events = new DataView(new ArrayBuffer(EVENTS_MAX * EVENT_BYTES));
  #referenced = 0;

  constructor(epoll: OwnedFd, socket: Socket) {
    this.#epoll = epoll;
    this.#socket = socket;
    socket.on("error", () => this.#callBack());
    socket.unref();
  }

  static open(): ThreadPoll {
    return acquireIn((scope) => {
      const made = checked("make an epoll file", "epoll_create1", (c) =>
        c.epoll_create1(O_CLOEXEC),
      );
      const epoll = scope.own(new OwnedFd(made), (fd) => fd.close());
      const socket = scope.own(createSocket("udp4"), (it) => it.close());
      const number = checked("open a socket", "socket", (c) =>
        c.socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
      );
      // WHY exclusive: otherwise a worker of Node's `cluster` would ask its primary for the socket.
      socket.bind({ fd: number, exclusive: true });
      // WHY only now: Node accepts only sockets. libuv begins to watch the number at the next wait.
      checked("watch an epoll file", "dup3", (c) => c.dup3(epoll.number, number, O_CLOEXEC));
      return new ThreadPoll(epoll, socket);
    });
  }

  start(fd: number, handle: ThreadPollHandle, events: PollEvents): void {
    const event = new DataView(new ArrayBuffer(EVENT_BYTES));
    const wanted =
      (events.readable ? EPOLLIN : 0) |
      (events.writable ? EPOLLOUT : 0) |
      (events.disconnect ? EPOLLRDHUP : 0);
    event.setUint32(0, wanted, true);
    event.setInt32(DATA_AT, fd, true);
    this.#control(EPOLL_CTL_ADD, fd, event);
    this.#handles.set(fd, handle);
  }

  stop(fd: number): void {
    if (this.#handles.delete(fd))
      this.#control(EPOLL_CTL_DEL, fd, new DataView(new ArrayBuffer(EVENT_BYTES)));
  }

  /** Counts the handles that keep the thread alive. */
  refer(change: number): void {
    this.#referenced += change;
    if (this.#referenced > 0) this.#socket.ref();
    else this.#socket.unref();
  }

  #control(operation: number, fd: number, event: DataView): void {
    // SAFETY: the event has the size that the kernel reads, and is read within the call.
    const bytes = new Uint8Array(event.buffer);
    checked("watch a file descriptor", "epoll_ctl", (c) =>
      c.epoll_ctl(this.#epoll.number, operation, fd, bytes),
    );
  }

  #callBack(): void {
    const events = this.#events;
    // SAFETY: there is room for as many events as requested. The kernel reports the others again.
    const bytes = new Uint8Array(events.buffer);
    const count = libc().epoll_wait(this.#epoll.number, bytes, EVENTS_MAX, 0);
    for (let index = 0; index < count; index += 1) {
      this.#handles.get(events.getInt32(index * EVENT_BYTES + DATA_AT, true))?.onReady();
    }
  }
}

/** Like koffi's poll handles, which are for the main thread. */
export class ThreadPollHandle {
  readonly #fd: number;
  readonly #poll: ThreadPoll;
  onReady: () => void = () => {};
  #open = true;
  #referenced = true;
  #started = false;

  constructor(fd: number, poll: ThreadPoll) {
    this.#fd = fd;
    this.#poll = poll;
    poll.refer(1);
  }

  start(events: PollEvents, onReady: () => void): void {
    this.stop();
    this.onReady = onReady;
    this.#poll.start(this.#fd, this, events);
    this.#started = true;
  }

  stop(): void {
    if (!this.#started) return;
    this.#started = false;
    this.#poll.stop(this.#fd);
  }

  close(): void {
    this.stop();
    this.unref();
    this.#open = false;
  }

  ref(): void {
    if (!this.#open || this.#referenced) return;
    this.#referenced = true;
    this.#poll.refer(1);
  }

  unref(): void {
    if (!this.#open || !this.#referenced) return;
    this.#referenced = false;
    this.#poll.refer(-1);
  }
}

/** One for the whole thread. It is never closed, because it ends with the thread. */
let threadPoll: ThreadPoll | undefined;

/** Watches a descriptor from this worker thread, as `koffi.node.poll` does from the main thread. */
export function pollInThread(
  fd: number,
  events: PollEvents,
  onReady: () => void,
): ThreadPollHandle {
  threadPoll ??= ThreadPoll.open();
  const handle = new ThreadPollHandle(fd, threadPoll);
  handle.start(events, onReady);
  return handle;
}

function checked(attempt: string, name: string, call: (libc: Libc) => number): number {
  const result = call(libc());
  if (result < 0) throw systemError(attempt, name);
  return result;
}
