/** A listening Unix socket, SEQPACKET by default. Nothing here waits. */
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { lastErrno, libc } from "../ffi/libc.js";
import { OwnedFd } from "./owned-fd.js";
import { openSocket, SeqpacketSocket, type SocketType } from "./seqpacket.js";
import { removeStaleSocket } from "./socket-file.js";
import * as layout from "./socket-layout.js";
import { retryInterrupted } from "./socket-message.js";
import { errnos, systemError } from "./system-error.js";

const BACKLOG = 1024;
const F_GETFL = 3;
const F_SETFL = 4;

export class SeqpacketListener {
  readonly fd: OwnedFd;

  private constructor(fd: OwnedFd) {
    this.fd = fd;
  }

  /** Listens at a path where no file is. */
  static listen(path: string, type?: SocketType): SeqpacketListener {
    return acquireIn((scope) => {
      const fd = scope.own(openSocket(type), (fd) => fd.close());
      const address = layout.unixAddress(layout.checkSocketPath(path));
      if (libc().bind(fd.number, address, address.byteLength) < 0)
        throw systemError(`listen at ${path}`, "bind");
      // WHY here: the caller does not know of the file, and the next listener would fail.
      scope.defer(() => removeStaleSocket(path));
      if (libc().listen(fd.number, BACKLOG) < 0) throw systemError(`listen at ${path}`, "listen");
      return new SeqpacketListener(fd);
    });
  }

  /**
   * Takes over a listening socket that another process created. The caller keeps it if this throws.
   * @throws INVALID_MESSAGE if it is anything else
   */
  static adopt(fd: OwnedFd): SeqpacketListener {
    const found = [layout.SO_DOMAIN, layout.SO_TYPE, layout.SO_ACCEPTCONN].map((option) =>
      tryIntOption(fd, option),
    );
    if (found[0] !== layout.AF_UNIX || found[1] !== layout.SOCK_SEQPACKET || found[2] !== 1) {
      throw new CudaIpcError(
        "INVALID_MESSAGE",
        "Cannot take over a listening socket: it is not a Unix SEQPACKET socket that listens",
      );
    }
    // Its creator may have wanted accept4 to wait. Here it must not.
    const flags = libc().fcntl(fd.number, F_GETFL, 0);
    if (flags < 0 || libc().fcntl(fd.number, F_SETFL, flags | layout.SOCK_NONBLOCK) < 0) {
      throw systemError("take over a listening socket", "fcntl");
    }
    return new SeqpacketListener(fd);
  }

  /**
   * Takes the listening over from another process. New clients then see this process as their peer
   * (SO_PEERCRED). Clients that wait to be accepted notice nothing.
   */
  listen(): void {
    if (libc().listen(this.fd.number, BACKLOG) < 0) throw systemError("listen", "listen");
  }

  /** Accepts the next client. Returns undefined if none waits. */
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

/** Returns undefined if it is not a socket. */
function tryIntOption(fd: OwnedFd, option: number): number | undefined {
  const value = new Uint8Array(new ArrayBuffer(4));
  const length = new Uint32Array(new ArrayBuffer(4)).fill(4);
  if (libc().getsockopt(fd.number, layout.SOL_SOCKET, option, value, length) < 0) return undefined;
  return new DataView(value.buffer).getInt32(0, true);
}
