/**
 * A Unix socket to a program that need not use this package. Node's own sockets silently drop
 * descriptors, so it is made here. pass-fd.ts sends and receives descriptors on it. A wait never
 * blocks the event loop, and both sides name the other's process.
 */
import { resolve } from "node:path";
import { checkInteger } from "../base/bytes.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import type { ErrorCode } from "../base/error-codes.js";
import { CudaIpcError, hasCode, SystemError } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { oneOf, optionsOf, waitChecks } from "../base/option-checks.js";
import { retryPause } from "../base/pause.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { userWords } from "../os/accounts.js";
import { closeForeign } from "../os/foreign-fd.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { Readiness } from "../os/readiness.js";
import { ownUid, ROOT } from "../os/runtime-folder.js";
import {
  connectTo,
  damageOf,
  hangUp,
  type PeerCredentials,
  peerCredentialsOf,
  type SocketType,
} from "../os/seqpacket.js";
import {
  inFlightWords,
  isInFlightLimit,
  tryReceivePart,
  trySendPart,
} from "../os/socket-message.js";
import { type Arrived, ArrivingMessage } from "./arriving-message.js";
import { awaitListener } from "./await-listener.js";

export interface UnixSocketOptions {
  /**
   * `stream` (the default, SOCK_STREAM) or `seqpacket` (SOCK_SEQPACKET), as the other side has it.
   * Only a seqpacket socket keeps the boundaries of messages.
   */
  readonly type?: SocketType | undefined;
}

export const aSocketType = oneOf("stream", "seqpacket");

const checkConnect = optionsOf<UnixSocketOptions & WaitOptions>("UnixSocket.connect()", {
  ...waitChecks,
  type: aSocketType,
});
const checkWait = optionsOf<WaitOptions>("a call of UnixSocket", waitChecks);

export class UnixSocket {
  readonly type: SocketType;
  /**
   * The process that connected, or that listened when this one connected. Its pid is 0 if it is in
   * a PID namespace that this process cannot see.
   */
  readonly peer: PeerCredentials;
  readonly #fd: OwnedFd;
  readonly #ready: Readiness;
  readonly #busy = new Set<"send" | "receive">();
  #open = true;

  /** Takes over the descriptor of a connected socket, unless it throws. @internal */
  constructor(fd: OwnedFd, type: SocketType, peer: PeerCredentials) {
    this.type = type;
    this.peer = peer;
    this.#fd = fd;
    this.#ready = new Readiness(fd);
  }

  /**
   * Connects to the socket at the path. Waits until a process of this user, or of root, listens.
   * @throws TIMEOUT if the path has no socket in time
   * @throws PEER_GONE if the path has a socket file but its process has ended
   * @throws WRONG_KIND if the socket is of the other type
   * @throws UNTRUSTED_PEER, SOCKET_PATH_TOO_LONG, ABORTED
   * @example
   * using socket = await UnixSocket.connect("/tmp/frames.sock", { type: "seqpacket" });
   * using fd = (await receiveFd(socket)).fd;
   */
  static async connect(
    path: string,
    options: UnixSocketOptions & WaitOptions = {},
  ): Promise<UnixSocket> {
    checkConnect(options);
    const { type = "stream" } = options;
    const target = resolve(path);
    const deadline = new Deadline(`connect to ${target}`, options, defaults.peerTimeoutMs);
    return awaitListener(target, deadline, () => connectOnce(target, type));
  }

  get open(): boolean {
    return this.#open;
  }

  /**
   * Sends bytes: a part of the stream, or one message. At most 64 KiB.
   * @throws PEER_GONE if the other side has hung up; MESSAGE_TOO_LARGE, IN_USE, TIMEOUT, ABORTED
   */
  async send(bytes: Uint8Array, options: WaitOptions = {}): Promise<void> {
    checkWait(options);
    await this.transmit(`send ${bytes.byteLength} bytes`, bytes, [], options);
  }

  /**
   * Receives exactly so many bytes, without a descriptor.
   * @throws PEER_GONE if the other side has hung up
   * @throws INVALID_MESSAGE if a message of another size or a descriptor arrives
   * @throws IN_USE, TIMEOUT, ABORTED
   */
  async receive(byteLength: number, options: WaitOptions = {}): Promise<Uint8Array> {
    checkInteger("byteLength", byteLength, 1, limits.messageBytesMax);
    checkWait(options);
    const attempt = `receive ${byteLength} bytes`;
    const { bytes, fd, fdCount } = await this.take(attempt, byteLength, options);
    if (fd === undefined) return bytes;
    closeForeign(fd);
    throw this.refusal(attempt, `${fdCount} descriptors came with them. Use receiveFd().`);
  }

  /**
   * Sends bytes, and descriptors with the first of them. The caller keeps the descriptors.
   * @internal
   */
  async transmit(
    what: string,
    bytes: Uint8Array,
    fds: readonly OwnedFd[],
    options: WaitOptions,
  ): Promise<void> {
    const attempt = `${what} to ${this.#peerWords}`;
    let sent = 0;
    let isLimited = false;
    const why = () => {
      if (isLimited) return inFlightWords();
      return sent === 0 ? "it does not read" : `it read ${sent} bytes and then no more`;
    };
    const deadline = new Deadline(attempt, options, defaults.peerTimeoutMs, why);
    await this.#alone("send", attempt, async () => {
      try {
        for (;;) {
          deadline.check();
          const part = this.#trySendPart(bytes.subarray(sent), sent === 0 ? fds : []);
          isLimited = part === undefined;
          sent += part ?? 0;
          if (sent === bytes.byteLength) return;
          if (isLimited) await retryPause(deadline);
          else await this.#ready.until("writable", deadline);
          this.#checkOpen(attempt);
        }
      } catch (error) {
        this.#breakOff(sent);
        if (!hasCode(error, "PEER_GONE")) throw error;
        throw this.#gone(attempt, "it has hung up", error);
      }
    });
  }

  /** Undefined if this user has too many descriptors in flight. */
  #trySendPart(bytes: Uint8Array, fds: readonly OwnedFd[]): number | undefined {
    try {
      return trySendPart(this.#fd, bytes, fds);
    } catch (error) {
      if (isInFlightLimit(error)) return undefined;
      throw error;
    }
  }

  /**
   * Receives one message, or `byteLength` bytes of a stream.
   * @param byteLength the size that a message must have; undefined for any
   * @internal
   */
  async take(what: string, byteLength: number | undefined, options: WaitOptions): Promise<Arrived> {
    const attempt = `${what} from ${this.#peerWords}`;
    const arriving = new ArrivingMessage();
    const why = () => `it sent ${arriving.words(byteLength)}`;
    const deadline = new Deadline(attempt, options, defaults.peerTimeoutMs, why);
    return this.#alone("receive", attempt, async () => {
      try {
        while (!this.#isWhole(arriving, byteLength)) {
          deadline.check();
          if (this.#receivePart(arriving, byteLength, attempt)) continue;
          await this.#ready.until("readable", deadline);
          this.#checkOpen(attempt);
        }
        if (byteLength === undefined || arriving.byteLength === byteLength) return arriving.whole();
        const found = `a message of ${arriving.byteLength} bytes came, wanted ${byteLength}`;
        throw this.refusal(what, found);
      } catch (error) {
        arriving.drop();
        if (this.type === "stream") this.#breakOff(arriving.byteLength);
        throw error;
      }
    });
  }

  /** The error for a message of the other side. @internal */
  refusal(what: string, found: string, code: ErrorCode = "INVALID_MESSAGE"): CudaIpcError {
    return new CudaIpcError(code, `Cannot ${what} from ${this.#peerWords}: ${found}`);
  }

  /** Hangs up. What is under way throws CLOSED. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    // WHY not simply closed: unread descriptors are closed with it, and that can wait.
    releaseAll([() => this.#ready.close(), () => hangUp(this.#fd)]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  get #peerWords(): string {
    return this.peer.pid > 0 ? `process ${this.peer.pid}` : "the other process";
  }

  /** Each side has one call at a time, because two would get parts of each other's messages. */
  async #alone<T>(side: "send" | "receive", attempt: string, work: () => Promise<T>): Promise<T> {
    this.#checkOpen(attempt);
    if (this.#busy.has(side)) {
      const found = `an earlier call to ${side} is under way`;
      throw new CudaIpcError("IN_USE", `Cannot ${attempt}: ${found}; await it first`);
    }
    this.#busy.add(side);
    try {
      return await work();
    } finally {
      this.#busy.delete(side);
    }
  }

  #isWhole(arriving: ArrivingMessage, byteLength: number | undefined): boolean {
    if (this.type === "seqpacket") return arriving.parts > 0;
    return arriving.byteLength === byteLength;
  }

  /** Returns false if nothing is there yet. @throws PEER_GONE at the end */
  #receivePart(
    arriving: ArrivingMessage,
    byteLength: number | undefined,
    attempt: string,
  ): boolean {
    // WHY no more: what follows in a stream belongs to the next call.
    const rest = this.type === "stream" ? (byteLength as number) - arriving.byteLength : undefined;
    const part = tryReceivePart(this.#fd, rest);
    if (part === undefined) return false;
    const damage = damageOf(part);
    if (part.bytes.byteLength === 0 && part.fds.length === 0 && damage === undefined) {
      const after = arriving.parts === 0 ? "" : ` after ${arriving.words(byteLength)}`;
      throw this.#gone(attempt, `it has hung up${after}`);
    }
    arriving.add(part);
    if (damage !== undefined) throw damage;
    return true;
  }

  #gone(attempt: string, found: string, cause?: unknown): CudaIpcError {
    return new CudaIpcError("PEER_GONE", `Cannot ${attempt}: ${found}`, { cause });
  }

  /** Closes a stream within a message: the other side would take the next for its rest. */
  #breakOff(byteLength: number): void {
    if (byteLength > 0) this.close();
  }

  #checkOpen(attempt: string): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot ${attempt}: the socket was closed`);
  }
}

/** Whether a process is of this user or of root, who can do everything anyway. */
export function isTrusted({ uid }: PeerCredentials): boolean {
  return uid === ownUid() || uid === ROOT;
}

/** @throws UNTRUSTED_PEER */
function checkPeer(path: string, peer: PeerCredentials): void {
  if (isTrusted(peer)) return;
  const { uid } = peer;
  const found = `it runs as ${userWords(uid)}, this process as ${ownUid()}`;
  const message = `Cannot trust the process at the other end of ${path}: ${found}`;
  throw new CudaIpcError("UNTRUSTED_PEER", message);
}

function connectOnce(path: string, type: SocketType): UnixSocket {
  return acquireIn((scope) => {
    const fd = scope.own(connectedTo(path, type), hangUp);
    const peer = peerCredentialsOf(fd);
    checkPeer(path, peer);
    return new UnixSocket(fd, type, peer);
  });
}

function connectedTo(path: string, type: SocketType): OwnedFd {
  try {
    return connectTo(path, type);
  } catch (error) {
    if (!(error instanceof SystemError) || error.errnoName !== "EPROTOTYPE") throw error;
    const other = type === "stream" ? "seqpacket" : "stream";
    const found = `the socket there is of another type. Try { type: "${other}" }`;
    const message = `Cannot connect to ${path} as ${type}: ${found}.`;
    throw new CudaIpcError("WRONG_KIND", message, { cause: error });
  }
}
