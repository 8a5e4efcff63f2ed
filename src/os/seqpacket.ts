/**
 * Unix SEQPACKET sockets that carry file descriptors: message boundaries for free, descriptors arrive with the
 * message that speaks of them. Nothing here blocks or waits; see packet-channel.ts for that.
 * (Node's own sockets silently drop descriptors that are sent to them, so they cannot be used.)
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { lastErrno, libc } from "../ffi/libc.js";
import { closeForeign } from "./foreign-fd.js";
import { OwnedFd } from "./owned-fd.js";
import { openPidfd } from "./process-watch.js";
import { removeStaleSocket } from "./socket-file.js";
import * as layout from "./socket-layout.js";
import { messageMemory, retryInterrupted, trySendMessage } from "./socket-message.js";
import { errnos, systemError } from "./system-error.js";

const SOCKET_TYPE = layout.SOCK_SEQPACKET | layout.SOCK_CLOEXEC | layout.SOCK_NONBLOCK;
const BACKLOG = 1024;

export interface Packet {
  readonly bytes: Uint8Array;
  /** Owned by the receiver; none where the message is damaged. */
  readonly fds: readonly OwnedFd[];
  /**
   * What the kernel cut off: MESSAGE_TOO_LARGE where bytes are missing, TOO_MANY_FDS where descriptors are, because this
   * process can open no more.
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

  /** @throws SystemError with `ENOENT` or `ECONNREFUSED` where nobody listens */
  static connect(path: string): SeqpacketSocket {
    return acquireIn((scope) => {
      const fd = scope.own(openSocket(), (fd) => fd.close());
      const address = layout.unixAddress(checkSocketPath(path));
      if (libc().connect(fd.number, address, address.byteLength) < 0) {
        throw systemError(`connect to ${path}`, "connect");
      }
      return new SeqpacketSocket(fd);
    });
  }

  /** Two sockets connected to each other. */
  static pair(): [SeqpacketSocket, SeqpacketSocket] {
    const fds = new Int32Array(new ArrayBuffer(8));
    if (libc().socketpair(layout.AF_UNIX, SOCKET_TYPE, 0, fds) < 0)
      throw systemError("make a pair of sockets", "socketpair");
    const [first = -1, second = -1] = fds;
    return [new SeqpacketSocket(new OwnedFd(first)), new SeqpacketSocket(new OwnedFd(second))];
  }

  /**
   * Sends one message; the descriptors stay the caller's.
   * @returns false where the other side has not read enough to take it
   * @throws MESSAGE_TOO_LARGE; PEER_GONE where the other side has hung up, though what it had sent can still be received
   */
  trySend(bytes: Uint8Array, fds: readonly OwnedFd[] = []): boolean {
    return trySendMessage(this.fd, bytes, fds);
  }

  /**
   * Receives one message: undefined where none is there yet, "end" when the other side is gone.
   * @param drop takes over what did arrive of a message whose other descriptors were lost; by default it is closed
   */
  tryReceive(drop: (fd: OwnedFd) => void = closeForeign): Packet | "end" | undefined {
    const memory = messageMemory();
    memory.prepareReceive();
    const received = retryInterrupted(() =>
      libc().recvmsg(this.fd.number, memory.header, layout.MSG_DONTWAIT | layout.MSG_CMSG_CLOEXEC),
    );
    if (received < 0) {
      const errno = lastErrno();
      if (errno === errnos.EAGAIN) return undefined;
      // WHY again: a peer that hangs up with our messages unread is reported once, ahead of what it had still said.
      if (errno === errnos.ECONNRESET) return this.tryReceive(drop);
      throw systemError("receive a message", "recvmsg", errno);
    }
    const fds = memory.receivedFds().map((fd) => new OwnedFd(fd));
    const damage = damageOf(memory.receivedFlags(), received, fds.length);
    if (received === 0 && fds.length === 0 && damage === undefined) return "end";
    const bytes = memory.data.slice(0, received);
    if (damage === undefined) return { bytes, fds, damage };
    // SAFETY: of a cut message some descriptors did arrive; they must be closed here or they leak.
    releaseAll(fds.map((fd) => () => drop(fd)));
    return { bytes, fds: [], damage };
  }

  /** What `tryReceive` would find, with whether descriptors come with a message; none is received. */
  look(): "nothing" | "message" | "descriptors" {
    const memory = messageMemory();
    memory.prepareLook();
    const flags = layout.MSG_PEEK | layout.MSG_DONTWAIT;
    const found = retryInterrupted(() => libc().recvmsg(this.fd.number, memory.header, flags));
    // There is no room for descriptors, and the kernel says that it left some out.
    if (found >= 0) return (memory.receivedFlags() & layout.MSG_CTRUNC) !== 0 ? "descriptors" : "message";
    const errno = lastErrno();
    if (errno === errnos.EAGAIN) return "nothing";
    // WHY again: as in `tryReceive`.
    if (errno === errnos.ECONNRESET) return this.look();
    throw systemError("look at a message", "recvmsg", errno);
  }

  /**
   * Hangs up, and drops what was sent here and never received. The socket is still to be closed.
   * @returns false if messages with descriptors are left, which the close of the socket closes
   */
  hangUp(): boolean {
    // SYNC: nothing more can be sent to this socket once the kernel has shut it down.
    this.shutDown();
    for (;;) {
      if (this.look() === "descriptors") return false;
      const packet = this.tryReceive();
      if (packet === undefined || packet === "end") return true;
    }
  }

  /** The process that connected, or that listens, as it was at that moment. */
  peerCredentials(): PeerCredentials {
    const value = new Uint8Array(new ArrayBuffer(12));
    const length = new Uint32Array(new ArrayBuffer(4)).fill(12);
    if (libc().getsockopt(this.fd.number, layout.SOL_SOCKET, layout.SO_PEERCRED, value, length) < 0) {
      throw systemError("ask for the peer's credentials", "getsockopt");
    }
    const view = new DataView(value.buffer);
    return { pid: view.getInt32(0, true), uid: view.getUint32(4, true), gid: view.getUint32(8, true) };
  }

  /**
   * The supplementary groups that the peer had when it connected or began to listen, in the kernel's order; its own group is in the
   * credentials. None where the kernel cannot tell (Linux before 4.13).
   */
  peerGroups(): number[] {
    const length = new Uint32Array(new ArrayBuffer(4));
    for (let byteLength = GROUPS_BYTES; ; ) {
      const value = new Uint8Array(new ArrayBuffer(byteLength));
      length[0] = byteLength;
      if (libc().getsockopt(this.fd.number, layout.SOL_SOCKET, layout.SO_PEERGROUPS, value, length) >= 0) {
        return Array.from(new Uint32Array(value.buffer, 0, length[0] / 4));
      }
      const errno = lastErrno();
      if (errno === errnos.ENOPROTOOPT) return [];
      // The kernel says how many bytes it wants. WHY only more: anything else would ask for ever.
      if (errno !== errnos.ERANGE || length[0] <= byteLength) {
        throw systemError("ask for the peer's groups", "getsockopt", errno);
      }
      byteLength = length[0];
    }
  }

  /**
   * A pidfd of the process that connected, or undefined where that process has ended. The caller owns it.
   * @throws TOO_MANY_FDS
   */
  peerPidfd(): OwnedFd | undefined {
    const value = new Uint8Array(new ArrayBuffer(4));
    const length = new Uint32Array(new ArrayBuffer(4)).fill(4);
    if (libc().getsockopt(this.fd.number, layout.SOL_SOCKET, layout.SO_PEERPIDFD, value, length) >= 0) {
      return new OwnedFd(new DataView(value.buffer).getInt32(0, true));
    }
    const errno = lastErrno();
    // WHY by number: Linux before 6.5 does not know the option. A number can have been given to another process meanwhile.
    if (errno === errnos.ENOPROTOOPT) return openPidfd(this.peerCredentials().pid);
    if (PROCESS_GONE.has(errno)) return undefined;
    throw systemError("ask for the peer's process", "getsockopt", errno);
  }

  /** What was sent and not received yet, in bytes of the kernel's own memory; 0 where all of it was received. */
  unreadBytes(): number {
    if (libc().ioctl(this.fd.number, SIOCOUTQ, unread) < 0) throw systemError("ask what was received", "ioctl");
    return unread[0] ?? 0;
  }

  /** Hangs up; what was sent can still be received. */
  shutDown(): void {
    if (libc().shutdown(this.fd.number, SHUT_RDWR) < 0) throw systemError("hang up", "shutdown");
  }

  close(): void {
    this.fd.close();
  }
}

export class SeqpacketListener {
  readonly fd: OwnedFd;

  private constructor(fd: OwnedFd) {
    this.fd = fd;
  }

  /** Listens at a path where no file is. */
  static listen(path: string): SeqpacketListener {
    return acquireIn((scope) => {
      const fd = scope.own(openSocket(), (fd) => fd.close());
      const address = layout.unixAddress(checkSocketPath(path));
      if (libc().bind(fd.number, address, address.byteLength) < 0) throw systemError(`listen at ${path}`, "bind");
      // WHY here: whoever called knows of no file that was made, and the next one could not listen there.
      scope.defer(() => removeStaleSocket(path));
      if (libc().listen(fd.number, BACKLOG) < 0) throw systemError(`listen at ${path}`, "listen");
      return new SeqpacketListener(fd);
    });
  }

  /**
   * Takes over a socket that listens already, made by another process; the caller keeps it where this throws.
   * @throws INVALID_MESSAGE where it is anything else
   */
  static adopt(fd: OwnedFd): SeqpacketListener {
    const found = [layout.SO_DOMAIN, layout.SO_TYPE, layout.SO_ACCEPTCONN].map((option) => tryIntOption(fd, option));
    if (found[0] !== layout.AF_UNIX || found[1] !== layout.SOCK_SEQPACKET || found[2] !== 1) {
      throw new CudaIpcError("INVALID_MESSAGE", "Cannot take over a listening socket: it is none of this kind");
    }
    // WHY: whoever made it may have wanted to wait in accept4; nobody here may.
    const flags = libc().fcntl(fd.number, F_GETFL, 0);
    if (flags < 0 || libc().fcntl(fd.number, F_SETFL, flags | layout.SOCK_NONBLOCK) < 0) {
      throw systemError("take over a listening socket", "fcntl");
    }
    return new SeqpacketListener(fd);
  }

  /**
   * Listens, in the place of whoever listened on this socket before: who connects from here on finds this process on the other side
   * (SO_PEERCRED), and no longer one that may have ended. Nothing changes for those who wait to be accepted.
   */
  listen(): void {
    if (libc().listen(this.fd.number, BACKLOG) < 0) throw systemError("listen", "listen");
  }

  /** The next client, or undefined where none waits. */
  tryAccept(): SeqpacketSocket | undefined {
    const flags = layout.SOCK_CLOEXEC | layout.SOCK_NONBLOCK;
    const fd = retryInterrupted(() => libc().accept4(this.fd.number, null, null, flags));
    if (fd >= 0) return new SeqpacketSocket(new OwnedFd(fd));
    const errno = lastErrno();
    if (errno === errnos.EAGAIN || errno === errnos.ECONNABORTED) return undefined;
    throw systemError("accept a client", "accept4", errno);
  }

  close(): void {
    this.fd.close();
  }
}

/** WHY one for all: it is asked for with each reply that carries descriptors. */
const unread = new Int32Array(new ArrayBuffer(4));

/** The same number as TIOCOUTQ on all architectures that Node runs on. */
const SIOCOUTQ = 0x5411;
const SHUT_RDWR = 2;
const F_GETFL = 3;
const F_SETFL = 4;

/** Room for 32 groups; who is in more is asked for twice. */
const GROUPS_BYTES = 32 * 4;

/** What asking for the pidfd of a process that has been reaped gives, in one version of Linux or another. */
const PROCESS_GONE: ReadonlySet<number> = new Set([errnos.ESRCH, errnos.EINVAL, errnos.ENODATA]);

/** Undefined for what is no socket. */
function tryIntOption(fd: OwnedFd, option: number): number | undefined {
  const value = new Uint8Array(new ArrayBuffer(4));
  const length = new Uint32Array(new ArrayBuffer(4)).fill(4);
  if (libc().getsockopt(fd.number, layout.SOL_SOCKET, option, value, length) < 0) return undefined;
  return new DataView(value.buffer).getInt32(0, true);
}

function openSocket(): OwnedFd {
  const fd = libc().socket(layout.AF_UNIX, SOCKET_TYPE, 0);
  if (fd < 0) throw systemError("open a socket", "socket");
  return new OwnedFd(fd);
}

/** @throws SOCKET_PATH_TOO_LONG */
export function checkSocketPath(path: string): string {
  const byteLength = Buffer.byteLength(path, "utf8");
  if (byteLength > limits.socketPathBytesMax) {
    throw new CudaIpcError(
      "SOCKET_PATH_TOO_LONG",
      `Cannot use ${path} as a socket: ${byteLength} bytes, the system takes ${limits.socketPathBytesMax}`,
    );
  }
  if (path === "" || path.includes("\0")) throw new TypeError("A socket path is not empty and holds no zero byte");
  return path;
}

function damageOf(flags: number, byteLength: number, fdCount: number): CudaIpcError | undefined {
  if ((flags & layout.MSG_CTRUNC) !== 0) {
    const message = `Cannot receive a message: its descriptors after the first ${fdCount} were lost`;
    return new CudaIpcError("TOO_MANY_FDS", message);
  }
  if ((flags & layout.MSG_TRUNC) !== 0 || byteLength > limits.messageBytesMax) {
    const message = `Cannot receive a message: over ${limits.messageBytesMax} bytes`;
    return new CudaIpcError("MESSAGE_TOO_LARGE", message);
  }
  return undefined;
}
