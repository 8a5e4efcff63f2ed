/**
 * A client's socket. Receives one message at a time. Sends replies at once, or queues them at the
 * client's cost. A queued reply holds no descriptors: they are made again when it is sent. Ends
 * once, with a reason.
 */
import { type CudaIpcError, hasCode, SystemError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { GrowingPause } from "../../base/pause.js";
import { releaseAll } from "../../base/scope.js";
import { FdWatch } from "../../os/fd-watch.js";
import { closeMemory } from "../../os/foreign-fd.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { Packet, SeqpacketSocket } from "../../os/seqpacket.js";
import { encodeMessage } from "../../wire/codec.js";
import type { Reply } from "../../wire/messages.js";
import type { Outgoing } from "../core/ports.js";
import type { UserGate } from "../gate/descriptor-gate.js";
import type { Account } from "../limits/quota.js";
import type { UnreadDescriptors, UnreadOfSocket } from "./unread-descriptors.js";

export interface ClientSocketHandler {
  /** The socket is readable or writable: call `flush` and `receive`. */
  onReady(): void;
  /** The handler owns the descriptors. */
  onPacket(packet: Packet): void;
  /** Called once, without a reason if the other side closed. Not called after `close()`. */
  onEnd(reason: unknown): void;
}

interface Waiting {
  readonly byteLength: number;
  readonly fdCount: number;
  /** Makes the reply and its descriptors. */
  make(): Outgoing<OwnedFd>;
}

type Sent = "sent" | "no room" | "not now";

const RETRY_MS_MAX = 50;

/** Shortages that pass, and that are not this client's fault. */
const SHORTAGES: ReadonlySet<string> = new Set([
  "ETOOMANYREFS",
  "EMFILE",
  "ENFILE",
  "ENOBUFS",
  "ENOMEM",
]);

export class ClientSocket {
  readonly #socket: SeqpacketSocket;
  readonly #handler: ClientSocketHandler;
  readonly #account: Account;
  readonly #unread: UnreadOfSocket;
  readonly #gate: UserGate;
  /** Messages that the gate has received, for this client's turn. */
  readonly #arrived: Packet[] = [];
  /** Whether the gate is receiving from the socket. */
  #lent = false;
  readonly #watch: FdWatch;
  readonly #queue: Waiting[] = [];
  readonly #pause = new GrowingPause();
  #queuedBytes = 0;
  #retryTimer: NodeJS.Timeout | undefined;
  #open = true;
  #paused = false;

  /** Takes over the socket unless it throws. */
  constructor(
    socket: SeqpacketSocket,
    account: Account,
    { unread, gate }: { readonly unread: UnreadDescriptors; readonly gate: UserGate },
    handler: ClientSocketHandler,
  ) {
    this.#socket = socket;
    this.#account = account;
    this.#gate = gate;
    this.#unread = unread.of(socket, account, () => gate.closeSocket(socket));
    this.#handler = handler;
    this.#watch = new FdWatch(socket.fd, () => handler.onReady());
  }

  get open(): boolean {
    return this.#open;
  }

  /** Whether so many replies wait that the hub does nothing more for this client. */
  get isCrowded(): boolean {
    return this.#queuedBytes > limits.unreadBytesWhileServed;
  }

  /**
   * Sends a reply, now or later. The descriptors stay the caller's.
   * @param again makes the reply anew if it could not be sent at once
   * @throws LIMIT_EXCEEDED if too many replies wait; MESSAGE_TOO_LARGE
   */
  send(reply: Reply, fds: readonly OwnedFd[], again: () => Outgoing<OwnedFd>): void {
    const bytes = encodeMessage(reply);
    const sent = this.#queue.length === 0 ? this.#trySend(bytes, fds) : "not now";
    if (sent === "sent") return;
    const { byteLength } = bytes;
    this.#account.charge("keep a reply until it is read", { unreadBytes: byteLength });
    this.#queuedBytes += byteLength;
    this.#queue.push({ byteLength, fdCount: fds.length, make: again });
    if (this.#queue.length === 1) this.#await(sent);
  }

  /** Sends one waiting reply. Returns true if there may be more to send at once. */
  flush(): boolean {
    const [next] = this.#queue;
    if (next === undefined || !this.#open) return false;
    const sent = this.#sendWaiting(next);
    if (sent !== "sent") {
      this.#await(sent);
      return false;
    }
    this.#drop(next);
    if (this.#queue.length === 0) this.#watch.setWritable(false);
    return this.#queue.length > 0;
  }

  /** Whether the gate receives, so that messages may still come. */
  get isLent(): boolean {
    return this.#lent;
  }

  /**
   * Receives one message. Returns false if there is none at the moment.
   * @param evenPaused for a client whose process has ended
   */
  receive(evenPaused: boolean): boolean {
    if (!this.#open || (this.#paused && !evenPaused)) return false;
    const packet = this.#arrived.shift() ?? this.#tryReceive();
    if (packet === undefined) return false;
    if (packet === "end") this.end(undefined);
    else this.#handler.onPacket(packet);
    return this.#open;
  }

  /** Lets the gate receive messages with descriptors. */
  #tryReceive(): Packet | "end" | undefined {
    if (this.#lent) return undefined;
    // WHY look first: closing a foreign descriptor can block for as long as its sender likes, so
    // the hub must not even receive one.
    const next = this.#socket.look();
    if (next === "nothing") return undefined;
    if (next === "message") return this.#socket.tryReceive();
    this.#lent = true;
    this.listen(false);
    this.#gate.receive(this.#socket, {
      onPacket: (packet) => {
        if (this.#open) this.#arrived.push(packet);
        else for (const fd of packet.fds) closeMemory(fd);
      },
      onDone: (failure) => this.#takeBack(failure),
    });
    return undefined;
  }

  #takeBack(failure: CudaIpcError | undefined): void {
    this.#lent = false;
    if (!this.#open) {
      this.#unread.close();
      return;
    }
    // Messages may be lost. A client that reconnects repeats its requests.
    if (failure !== undefined) {
      this.end(failure);
      return;
    }
    this.listen(true);
    this.#handler.onReady();
  }

  /** Sets whether `onReady` reports readable data. It does by default. */
  listen(wanted: boolean): void {
    this.#watch.setReadable(wanted && !this.#paused && !this.#lent);
  }

  /** Receives nothing until `resume`. Messages wait in the socket. Replies are still sent. */
  pause(): void {
    this.#paused = true;
    this.listen(false);
  }

  resume(): void {
    this.#paused = false;
    this.listen(true);
    // The socket does not report these: the gate has received them already.
    if (this.#arrived.length > 0) this.#handler.onReady();
  }

  /** Ends it as if the other side had closed or something had failed. */
  end(reason: unknown): void {
    if (!this.#open) return;
    let told = reason;
    try {
      this.close();
    } catch (error) {
      // Passed on instead of thrown: the event loop is the caller, and the handler must hear of the
      // end.
      told ??= error;
    }
    this.#handler.onEnd(told);
  }

  /** Ends it from this side and drops waiting replies. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    clearTimeout(this.#retryTimer);
    for (const waiting of [...this.#queue]) this.#drop(waiting);
    const arrived = this.#arrived.splice(0).flatMap(({ fds }) => fds);
    // WHY later while the gate receives: closing the last descriptor of a socket closes what lies
    // in it, and that must be the gate.
    const closeSocket = () => (this.#lent ? this.#socket.shutDown() : this.#unread.close());
    const closes = arrived.map((fd) => () => closeMemory(fd));
    releaseAll([() => this.#watch.close(), closeSocket, ...closes]);
  }

  #sendWaiting(next: Waiting): Sent {
    // First, because descriptors that cannot be sent need not be made.
    if (!this.#unread.hasRoomFor(next.fdCount)) return "not now";
    let outgoing: Outgoing<OwnedFd>;
    try {
      outgoing = next.make();
    } catch (error) {
      if (isShortage(error)) return "not now";
      throw error;
    }
    try {
      return this.#trySend(encodeMessage(outgoing.reply), outgoing.fds);
    } finally {
      outgoing.close();
    }
  }

  #trySend(bytes: Uint8Array, fds: readonly OwnedFd[]): Sent {
    if (!this.#unread.tryAdd(fds.length)) return "not now";
    let sent: Sent = "not now";
    try {
      sent = this.#socket.trySend(bytes, fds) ? "sent" : "no room";
      return sent;
    } catch (error) {
      if (isShortage(error)) return "not now";
      // WHY "sent": nobody reads the reply, but the client's last messages must still be received.
      if (hasCode(error, "PEER_GONE")) return "sent";
      throw error;
    } finally {
      if (sent !== "sent") this.#unread.takeBack(fds.length);
    }
  }

  #await(sent: Sent): void {
    this.#watch.setWritable(sent === "no room");
    if (sent === "no room" || this.#retryTimer !== undefined) return;
    this.#retryTimer = setTimeout(
      () => {
        this.#retryTimer = undefined;
        this.#handler.onReady();
      },
      Math.min(RETRY_MS_MAX, this.#pause.nextMs()),
    );
  }

  #drop(waiting: Waiting): void {
    this.#queue.splice(this.#queue.indexOf(waiting), 1);
    this.#queuedBytes -= waiting.byteLength;
    this.#account.refund({ unreadBytes: waiting.byteLength });
    this.#pause.reset();
  }
}

function isShortage(error: unknown): boolean {
  return error instanceof SystemError && SHORTAGES.has(error.errnoName);
}
