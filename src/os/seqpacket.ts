/**
 * Unix SEQPACKET sockets that carry file descriptors. They keep message boundaries, and descriptors
 * arrive with their message. Nothing here waits; see packet-channel.ts for that. Node's own sockets
 * silently drop descriptors, so they cannot be used.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { lastErrno, libc } from "../ffi/libc.js";
import { closeForeign } from "./foreign-fd.js";
import { OwnedFd } from "./owned-fd.js";
import { openPidfd } from "./process-watch.js";
import * as layout from "./socket-layout.js";
import {
  messageMemory,
  type ReceivedPart,
  retryInterrupted,
  tryReceivePart,
  trySendMessage,
} from "./socket-message.js";
import { errnos, systemError } from "./system-error.js";

/** Of sockets that descriptors go through. */
export const socketTypes = {
  seqpacket: layout.SOCK_SEQPACKET,
  stream: layout.SOCK_STREAM,
} as const;

export type SocketType = keyof typeof socketTypes;

const FLAGS = layout.SOCK_CLOEXEC | layout.SOCK_NONBLOCK;

export interface Packet {
  readonly bytes: Uint8Array;
  /** The receiver owns them. A damaged message has none. */
  readonly fds: readonly OwnedFd[];
  /**
   * What the kernel cut off: MESSAGE_TOO_LARGE if bytes are missing, TOO_MANY_FDS if descriptors
   * are missing because this process can open no more.
   */
  readonly damage: CudaIpcError | undefined;
}

export interface PeerCredentials {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

export class SeqpacketSocket {
  readonly fd: OwnedFd;

  /** Takes over a connected socket. */
  constructor(fd: OwnedFd) {
    this.fd = fd;
  }

  /** @throws SystemError with `ENOENT` or `ECONNREFUSED` if nobody listens */
  static connect(path: string): SeqpacketSocket {
    return new SeqpacketSocket(connectTo(path));
  }

  /** Creates two sockets connected to each other. */
  static pair(): [SeqpacketSocket, SeqpacketSocket] {
    const fds = new Int32Array(new ArrayBuffer(8));
    if (libc().socketpair(layout.AF_UNIX, layout.SOCK_SEQPACKET | FLAGS, 0, fds) < 0)
      throw systemError("make a pair of sockets", "socketpair");
    const [first = -1, second = -1] = fds;
    return [new SeqpacketSocket(new OwnedFd(first)), new SeqpacketSocket(new OwnedFd(second))];
  }

  /**
   * Sends one message. The caller keeps the descriptors.
   * @returns false if the other side has to read first
   * @throws MESSAGE_TOO_LARGE; PEER_GONE if the other side has hung up. You can still receive what
   * it had sent.
   */
  trySend(bytes: Uint8Array, fds: readonly OwnedFd[] = []): boolean {
    return trySendMessage(this.fd, bytes, fds);
  }

  /**
   * Receives one message. Returns undefined if there is none yet, and "end" if the other side is
   * gone.
   * @param drop takes over the remaining descriptors of a damaged message; closes them by default
   */
  tryReceive(drop: (fd: OwnedFd) => void = closeForeign): Packet | "end" | undefined {
    const part = tryReceivePart(this.fd);
    if (part === undefined) return undefined;
    const { bytes, fds } = part;
    const damage = damageOf(part);
    if (bytes.byteLength === 0 && fds.length === 0 && damage === undefined) return "end";
    if (damage === undefined) return { bytes, fds, damage };
    // SAFETY: some descriptors of a cut message did arrive. They leak if they are not closed here.
    releaseAll(fds.map((fd) => () => drop(fd)));
    return { bytes, fds: [], damage };
  }

  /** Tells what `tryReceive` would find, without receiving it. */
  look(): "nothing" | "message" | "descriptors" {
    const memory = messageMemory();
    memory.prepareLook();
    const flags = layout.MSG_PEEK | layout.MSG_DONTWAIT;
    const found = retryInterrupted(() => libc().recvmsg(this.fd.number, memory.header, flags));
    // There is no room for descriptors, so the kernel reports that it left some out.
    if (found >= 0)
      return (memory.receivedFlags() & layout.MSG_CTRUNC) !== 0 ? "descriptors" : "message";
    const errno = lastErrno();
    if (errno === errnos.EAGAIN) return "nothing";
    // WHY again: as in `tryReceivePart`.
    if (errno === errnos.ECONNRESET) return this.look();
    throw systemError("look at a message", "recvmsg", errno);
  }

  /**
   * Hangs up and drops all messages that were not received. Close the socket afterwards.
   * @returns false if messages with descriptors are left, which the close of the socket closes
   */
  hangUp(): boolean {
    // SYNC: after the shutdown nobody can send to this socket any more.
    this.shutDown();
    for (;;) {
      if (this.look() === "descriptors") return false;
      const packet = this.tryReceive();
      if (packet === undefined || packet === "end") return true;
    }
  }

  /** The process that connected or listens, as it was at that moment. */
  peerCredentials(): PeerCredentials {
    return peerCredentialsOf(this.fd);
  }

  /**
   * The supplementary groups of the peer when it connected or began to listen. Its main group is in
   * the credentials. Returns none if the kernel cannot tell (Linux before 4.13).
   */
  peerGroups(): number[] {
    const length = new Uint32Array(new ArrayBuffer(4));
    for (let byteLength = GROUPS_BYTES; ; ) {
      const value = new Uint8Array(new ArrayBuffer(byteLength));
      length[0] = byteLength;
      if (
        libc().getsockopt(this.fd.number, layout.SOL_SOCKET, layout.SO_PEERGROUPS, value, length) >=
        0
      ) {
        return Array.from(new Uint32Array(value.buffer, 0, length[0] / 4));
      }
      const errno = lastErrno();
      if (errno === errnos.ENOPROTOOPT) return [];
      // The kernel says how many bytes it needs. If that is not more, asking again would never end.
      if (errno !== errnos.ERANGE || length[0] <= byteLength) {
        throw systemError("ask for the peer's groups", "getsockopt", errno);
      }
      byteLength = length[0];
    }
  }

  /**
   * A pidfd of the process that connected. Returns undefined if it has ended. The caller owns it.
   * @throws TOO_MANY_FDS
   */
  peerPidfd(): OwnedFd | undefined {
    const value = new Uint8Array(new ArrayBuffer(4));
    const length = new Uint32Array(new ArrayBuffer(4)).fill(4);
    if (
      libc().getsockopt(this.fd.number, layout.SOL_SOCKET, layout.SO_PEERPIDFD, value, length) >= 0
    ) {
      return new OwnedFd(new DataView(value.buffer).getInt32(0, true));
    }
    const errno = lastErrno();
    // Linux before 6.5 lacks the option. By pid, the process may be another one meanwhile.
    if (errno === errnos.ENOPROTOOPT) return openPidfd(this.peerCredentials().pid);
    if (PROCESS_GONE.has(errno)) return undefined;
    throw systemError("ask for the peer's process", "getsockopt", errno);
  }

  /** Bytes that were sent and not received yet, as the kernel counts its memory. */
  unreadBytes(): number {
    if (libc().ioctl(this.fd.number, SIOCOUTQ, unread) < 0)
      throw systemError("ask what was received", "ioctl");
    return unread[0] ?? 0;
  }

  /** Hangs up. The other side can still receive what was sent. */
  shutDown(): void {
    if (libc().shutdown(this.fd.number, SHUT_RDWR) < 0) throw systemError("hang up", "shutdown");
  }

  close(): void {
    this.fd.close();
  }
}

/** One for all sockets, because each reply with descriptors asks for it. */
const unread = new Int32Array(new ArrayBuffer(4));

/** The same number as TIOCOUTQ on all architectures that Node runs on. */
const SIOCOUTQ = 0x5411;
const SHUT_RDWR = 2;

/** Room for 32 groups. A peer with more needs a second call. */
const GROUPS_BYTES = 32 * 4;

/** Errors for the pidfd of a process that was reaped, in different versions of Linux. */
const PROCESS_GONE: ReadonlySet<number> = new Set([errnos.ESRCH, errnos.EINVAL, errnos.ENODATA]);

export function openSocket(type: SocketType = "seqpacket"): OwnedFd {
  return openOfType(socketTypes[type]);
}

function openOfType(type: number): OwnedFd {
  const fd = libc().socket(layout.AF_UNIX, type | FLAGS, 0);
  if (fd < 0) throw systemError("open a socket", "socket");
  return new OwnedFd(fd);
}

/**
 * Connects to a listening socket of the same type. The caller owns the result.
 * @throws SystemError with `ENOENT` or `ECONNREFUSED` if nobody listens, `EAGAIN` if too many wait
 * there, `EPROTOTYPE` if the socket is of another type
 */
export function connectTo(path: string, type?: SocketType): OwnedFd {
  return acquireIn((scope) => {
    const fd = scope.own(openSocket(type), (fd) => fd.close());
    const address = layout.unixAddress(layout.checkSocketPath(path));
    if (libc().connect(fd.number, address, address.byteLength) < 0)
      throw systemError(`connect to ${path}`, "connect");
    return fd;
  });
}

/**
 * True if an open socket is bound to the path. WHY a datagram socket: the listener could accept a
 * connection of its own type, and a program that accepts only one would take it for its peer.
 */
export function isBound(path: string): boolean {
  const fd = openOfType(layout.SOCK_DGRAM);
  try {
    const address = layout.unixAddress(layout.checkSocketPath(path));
    if (libc().connect(fd.number, address, address.byteLength) >= 0) return true;
    const errno = lastErrno();
    if (errno === errnos.EPROTOTYPE) return true;
    if (errno === errnos.ENOENT || errno === errnos.ECONNREFUSED) return false;
    throw systemError(`look for a listener at ${path}`, "connect", errno);
  } finally {
    fd.close();
  }
}

/**
 * Hangs up and closes a socket or a listener without waiting. WHY not a plain close: it also closes
 * the descriptors that nobody received, and closing those of another process can block.
 */
export function hangUp(fd: OwnedFd): void {
  // A socket whose other side is gone refuses this, and is closed all the same.
  libc().shutdown(fd.number, SHUT_RDWR);
  closeForeign(fd);
}

/** The process that connected or listens, as it was at that moment. */
export function peerCredentialsOf(fd: OwnedFd): PeerCredentials {
  const value = new Uint8Array(new ArrayBuffer(12));
  const length = new Uint32Array(new ArrayBuffer(4)).fill(12);
  if (libc().getsockopt(fd.number, layout.SOL_SOCKET, layout.SO_PEERCRED, value, length) < 0)
    throw systemError("ask for the peer's credentials", "getsockopt");
  const view = new DataView(value.buffer);
  return {
    pid: view.getInt32(0, true),
    uid: view.getUint32(4, true),
    gid: view.getUint32(8, true),
  };
}

/** The error for a packet that the kernel cut off; see `Packet`. */
export function damageOf({ flags, bytes, fds }: ReceivedPart): CudaIpcError | undefined {
  if ((flags & layout.MSG_CTRUNC) !== 0) {
    const lost = `its descriptors after the first ${fds.length} were lost`;
    const message = `Cannot receive a message: ${lost}`;
    return new CudaIpcError("TOO_MANY_FDS", message);
  }
  if ((flags & layout.MSG_TRUNC) !== 0 || bytes.byteLength > limits.messageBytesMax) {
    const message = `Cannot receive a message: over ${limits.messageBytesMax} bytes`;
    return new CudaIpcError("MESSAGE_TOO_LARGE", message);
  }
  return undefined;
}
