/** A listening Unix socket for programs that need not use this package. */
import { resolve } from "node:path";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { optionsOf, waitChecks } from "../base/option-checks.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { Readiness } from "../os/readiness.js";
import { hangUp, isBound, peerCredentialsOf, type SocketType } from "../os/seqpacket.js";
import { SeqpacketListener } from "../os/seqpacket-listener.js";
import { removeStaleSocket, SocketClaim, SocketFile } from "../os/socket-file.js";
import { aSocketType, isTrusted, UnixSocket, type UnixSocketOptions } from "./unix-socket.js";

const checkListen = optionsOf<UnixSocketOptions>("UnixListener.listen()", { type: aSocketType });
const checkAccept = optionsOf<WaitOptions>("accept()", waitChecks);

interface Parts {
  readonly claim: SocketClaim;
  readonly listener: SeqpacketListener;
  readonly file: SocketFile;
  readonly ready: Readiness;
}

export class UnixListener {
  readonly path: string;
  readonly type: SocketType;
  readonly #parts: Parts;
  #accepting = false;
  #open = true;

  private constructor(path: string, type: SocketType, parts: Parts) {
    this.path = path;
    this.type = type;
    this.#parts = parts;
  }

  /**
   * Listens at the path, for processes of this user and root (mode 0600). A socket file that a dead
   * process left there is replaced. It keeps the process alive only while `accept` waits.
   * @throws NAME_TAKEN if a process listens there
   * @throws FILE_EXISTS if a file that is not a socket is there
   * @throws SOCKET_PATH_TOO_LONG, PERMISSION_DENIED
   */
  static listen(path: string, options: UnixSocketOptions = {}): UnixListener {
    checkListen(options);
    const { type = "stream" } = options;
    const target = resolve(path);
    // Programs without this package do not take the lock that a claim rests on.
    if (isBound(target)) throw taken(target);
    return acquireIn((scope) => {
      const claim = SocketClaim.tryMake(target);
      if (claim === undefined) throw taken(target);
      scope.own(claim, (it) => it.release());
      const listener = SeqpacketListener.listen(target, { type });
      scope.own(listener, (it) => it.close());
      scope.defer(() => removeStaleSocket(target));
      const file = new SocketFile(target);
      const ready = new Readiness(listener.fd);
      return new UnixListener(target, type, { claim, listener, file, ready });
    });
  }

  /**
   * Waits for the next process that connects. Processes of other users are hung up on.
   * @throws CLOSED if `close` is called meanwhile; IN_USE, TIMEOUT, ABORTED
   */
  async accept(options: WaitOptions = {}): Promise<UnixSocket> {
    checkAccept(options);
    const attempt = `accept a connection at ${this.path}`;
    const deadline = new Deadline(attempt, options, defaults.peerTimeoutMs);
    this.#checkOpen(attempt);
    if (this.#accepting) {
      const found = "an earlier accept() is under way";
      throw new CudaIpcError("IN_USE", `Cannot ${attempt}: ${found}; await it first`);
    }
    this.#accepting = true;
    try {
      for (;;) {
        deadline.check();
        const accepted = this.#parts.listener.tryAccept();
        const socket = accepted === undefined ? undefined : this.#admit(accepted.fd);
        if (socket !== undefined) return socket;
        if (accepted !== undefined) continue;
        await this.#parts.ready.until("readable", deadline);
        this.#checkOpen(attempt);
      }
    } finally {
      this.#accepting = false;
    }
  }

  /** Stops listening and removes the socket file. Accepted sockets stay open. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const { claim, listener, file, ready } = this.#parts;
    releaseAll([
      () => file.remove(),
      () => ready.close(),
      () => hangUp(listener.fd),
      () => claim.release(),
    ]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Returns undefined for a process of another user, which reached the file before its mode. */
  #admit(fd: OwnedFd): UnixSocket | undefined {
    return acquireIn((scope) => {
      scope.own(fd, hangUp);
      const peer = peerCredentialsOf(fd);
      if (isTrusted(peer)) return new UnixSocket(fd, this.type, peer);
      hangUp(fd);
      return undefined;
    });
  }

  #checkOpen(attempt: string): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot ${attempt}: the listener was closed`);
  }
}

function taken(path: string): CudaIpcError {
  return new CudaIpcError("NAME_TAKEN", `Cannot listen at ${path}: another process listens there`);
}
