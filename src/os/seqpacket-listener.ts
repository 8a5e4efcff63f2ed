/** A listening Unix socket, SEQPACKET by default. Nothing here waits. */
import { createHash } from "node:crypto";
import { closeSync, constants, openSync, renameSync } from "node:fs";
import { basename, dirname } from "node:path";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { lastErrno, libc } from "../ffi/libc.js";
import { setMode } from "./file-calls.js";
import { OwnedFd } from "./owned-fd.js";
import { openSocket, SeqpacketSocket, type SocketType } from "./seqpacket.js";
import { isThere, removeStaleSocket } from "./socket-file.js";
import * as layout from "./socket-layout.js";
import { retryInterrupted } from "./socket-message.js";
import { errnos, fromNodeError, systemError } from "./system-error.js";

const BACKLOG = 1024;
const F_GETFL = 3;
const F_SETFL = 4;

/** The mode of a socket that only its owner may use, and of one for every user who reaches it. */
export const OWNER_ONLY = 0o600;
export const FOR_ALL = 0o666;

export interface ListenOptions {
  /** The file's mode, whatever the umask. Default: `OWNER_ONLY`. */
  readonly mode?: number;
  readonly type?: SocketType;
}

export class SeqpacketListener {
  readonly fd: OwnedFd;

  private constructor(fd: OwnedFd) {
    this.fd = fd;
  }

  /**
   * Listens at a path where no file is. The file appears with its mode and with a listener behind
   * it. Only one process at a time calls this for a path: the name is random, or a lock decides.
   */
  static listen(path: string, options: ListenOptions = {}): SeqpacketListener {
    const { mode = OWNER_ONLY, type } = options;
    layout.checkSocketPath(path);
    if (isThere(path)) throw systemError(`listen at ${path}`, "bind", errnos.EADDRINUSE);
    return withEarlyPath(path, (early) =>
      acquireIn((scope) => {
        const fd = scope.own(openSocket(type), (fd) => fd.close());
        removeStaleSocket(early); // An earlier process was killed before it could rename it.
        const address = layout.unixAddress(early);
        if (libc().bind(fd.number, address, address.byteLength) < 0)
          throw systemError(`listen at ${path}`, "bind");
        scope.defer(() => removeStaleSocket(early));
        setMode(early, mode);
        if (libc().listen(fd.number, BACKLOG) < 0) throw systemError(`listen at ${path}`, "listen");
        rename(early, path);
        return new SeqpacketListener(fd);
      }),
    );
  }

  /** Takes over a socket that has an address and does not listen yet: see `listen`. */
  static bound(fd: OwnedFd): SeqpacketListener {
    return new SeqpacketListener(fd);
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
   * Listens, or takes the listening over from another process. New clients then see this process as
   * their peer (SO_PEERCRED). Clients that wait to be accepted notice nothing.
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

/** Runs `use` with the name of a socket that does not listen yet. */
function withEarlyPath<T>(path: string, use: (early: string) => T): T {
  const early = `${path}.new`;
  if (layout.fitsSocketPath(early)) return use(early);
  // The system takes no longer path, but follows this one. The name alone may be too long as well.
  const name = createHash("sha256").update(basename(path)).digest("hex").slice(0, 16);
  const folder = openFolder(dirname(path));
  try {
    return use(`/proc/self/fd/${folder}/${name}.new`);
  } finally {
    closeSync(folder);
  }
}

function openFolder(folder: string): number {
  try {
    return openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  } catch (error) {
    throw fromNodeError(`open the folder ${folder}`, error);
  }
}

function rename(early: string, path: string): void {
  try {
    renameSync(early, path);
  } catch (error) {
    throw fromNodeError(`listen at ${path}`, error);
  }
}
