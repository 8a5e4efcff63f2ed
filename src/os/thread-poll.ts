/**
 * Tells a worker thread when descriptors are ready, in a way that a thread can be terminated with at any instant.
 *
 * WHY not koffi's poll handles: a thread that is terminated still finishes its turn of the event loop. koffi then calls
 * JavaScript for what became ready, which is refused, and koffi ends the process with SIGABRT. Node's own sockets call
 * nothing in that case, but none of them takes a descriptor of any kind. So a UDP socket of Node watches an epoll file
 * under its number: each time something is ready, Node reports that this is no socket (ENOTSOCK), and goes on watching.
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

/** struct epoll_event: u32 events, u64 data. It is packed on x86-64 alone. */
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
      const made = checked("make an epoll file", "epoll_create1", (c) => c.epoll_create1(O_CLOEXEC));
      const epoll = scope.own(new OwnedFd(made), (fd) => fd.close());
      const socket = scope.own(createSocket("udp4"), (it) => it.close());
      const number = checked("open a socket", "socket", (c) => c.socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      // WHY exclusive: else a process of Node's `cluster` would ask its primary for the socket.
      socket.bind({ fd: number, exclusive: true });
      // WHY only now: Node takes sockets alone, and libuv begins to watch the number when the event loop next waits.
      checked("watch an epoll file", "dup3", (c) => c.dup3(epoll.number, number, O_CLOEXEC));
      return new ThreadPoll(epoll, socket);
    });
  }

  start(fd: number, handle: ThreadPollHandle, events: PollEvents): void {
    const event = new DataView(new ArrayBuffer(EVENT_BYTES));
    const wanted =
      (events.readable ? EPOLLIN : 0) | (events.writable ? EPOLLOUT : 0) | (events.disconnect ? EPOLLRDHUP : 0);
    event.setUint32(0, wanted, true);
    event.setInt32(DATA_AT, fd, true);
    this.#control(EPOLL_CTL_ADD, fd, event);
    this.#handles.set(fd, handle);
  }

  stop(fd: number): void {
    if (this.#handles.delete(fd)) this.#control(EPOLL_CTL_DEL, fd, new DataView(new ArrayBuffer(EVENT_BYTES)));
  }

  /** How many handles more, or fewer, keep the thread from ending. */
  refer(change: number): void {
    this.#referenced += change;
    if (this.#referenced > 0) this.#socket.ref();
    else this.#socket.unref();
  }

  #control(operation: number, fd: number, event: DataView): void {
    // SAFETY: the event is of the size that the kernel reads, and is read within the call.
    const bytes = new Uint8Array(event.buffer);
    checked("watch a file descriptor", "epoll_ctl", (c) => c.epoll_ctl(this.#epoll.number, operation, fd, bytes));
  }

  #callBack(): void {
    const events = this.#events;
    // SAFETY: room for as many events as are asked for. Those that find none are reported again by the kernel.
    const bytes = new Uint8Array(events.buffer);
    const count = libc().epoll_wait(this.#epoll.number, bytes, EVENTS_MAX, 0);
    for (let index = 0; index < count; index += 1) {
      this.#handles.get(events.getInt32(index * EVENT_BYTES + DATA_AT, true))?.onReady();
    }
  }
}

/** As koffi's poll handles, which are for the main thread. */
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

/** WHY one for all, and never closed: it is of this thread, and ends with it. */
let threadPoll: ThreadPoll | undefined;

/** Begins to watch a descriptor from this worker thread, as `koffi.node.poll` does from the main thread. */
export function pollInThread(fd: number, events: PollEvents, onReady: () => void): ThreadPollHandle {
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
