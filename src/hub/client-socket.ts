/**
 * A client's socket: one message in at a time, and replies out at once or, where they cannot be sent yet, from a queue that the client
 * pays for. A reply that waits holds no descriptors; they are asked for again when it is sent. Ends once, with a reason.
 */
import { type CudaIpcError, hasCode, SystemError } from "../base/errors.js";
import { GrowingPause } from "../base/growing-pause.js";
import { limits } from "../base/limits.js";
import { releaseAll } from "../base/scope.js";
import { FdWatch } from "../os/fd-watch.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { Packet, SeqpacketSocket } from "../os/seqpacket.js";
import { encodeMessage } from "../wire/codec.js";
import type { Reply } from "../wire/messages.js";
import type { UserGate } from "./descriptor-gate.js";
import type { Outgoing } from "./ports.js";
import type { Account } from "./quota.js";
import type { UnreadDescriptors, UnreadOfSocket } from "./unread-descriptors.js";

export interface ClientSocketHandler {
  /** There is something to read or to send: call `flush` and `receive`. */
  onReady(): void;
  /** The descriptors belong to the handler. */
  onPacket(packet: Packet): void;
  /** Called once: without a reason when the other side closed. Not after `close()`. */
  onEnd(reason: unknown): void;
}

interface Waiting {
  readonly byteLength: number;
  readonly fdCount: number;
  /** What to send, for as long as it can be had. */
  make(): Outgoing<OwnedFd>;
}

type Sent = "sent" | "no room" | "not now";

const RETRY_MS_MAX = 50;

/** What is over in a moment, and nobody's fault who is connected here. */
const SHORTAGES: ReadonlySet<string> = new Set(["ETOOMANYREFS", "EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]);

export class ClientSocket {
  readonly #socket: SeqpacketSocket;
  readonly #handler: ClientSocketHandler;
  readonly #account: Account;
  readonly #unread: UnreadOfSocket;
  readonly #gate: UserGate;
  /** What the gate has received, to be handled in this client's turn. */
  readonly #arrived: Packet[] = [];
  /** Whether the gate receives. */
  #lent = false;
  readonly #watch: FdWatch;
  readonly #queue: Waiting[] = [];
  readonly #pause = new GrowingPause();
  #queuedBytes = 0;
  #retryTimer: NodeJS.Timeout | undefined;
  #open = true;
  #paused = false;

  /** Takes over the socket, unless it throws. */
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

  /** Whether so much waits for the client that nothing more is done for it. */
  get isCrowded(): boolean {
    return this.#queuedBytes > limits.unreadBytesWhileServed;
  }

  /**
   * Sends a reply, now or when that can be done; the descriptors stay the caller's.
   * @param again gives what to send where it could not be sent at once
   * @throws LIMIT_EXCEEDED where too much waits for this client already; MESSAGE_TOO_LARGE
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

  /** Sends some of what waits. True if there may be more to send at once. */
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

  /** Whether more comes without being waited for here. */
  get isLent(): boolean {
    return this.#lent;
  }

  /** Receives one message, of a client that has ended also while paused. False if there is none for the moment. */
  receive(evenPaused: boolean): boolean {
    if (!this.#open || (this.#paused && !evenPaused)) return false;
    const packet = this.#arrived.shift() ?? this.#tryReceive();
    if (packet === undefined) return false;
    if (packet === "end") this.end(undefined);
    else this.#handler.onPacket(packet);
    return this.#open;
  }

  /** Leaves messages with descriptors to the gate. */
  #tryReceive(): Packet | "end" | undefined {
    if (this.#lent) return undefined;
    // WHY looked at first: to close a descriptor of others can wait for as long as they like, so the hub must not even receive one.
    const next = this.#socket.look();
    if (next === "nothing") return undefined;
    if (next === "message") return this.#socket.tryReceive();
    this.#lent = true;
    this.listen(false);
    this.#gate.receive(this.#socket, {
      onPacket: (packet) => {
        if (this.#open) this.#arrived.push(packet);
        else for (const fd of packet.fds) fd.close();
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
    // WHY: messages may be lost, and a client that connects again repeats its requests.
    if (failure !== undefined) {
      this.end(failure);
      return;
    }
    this.listen(true);
    this.#handler.onReady();
  }

  /** Whether to tell when there is something to read; it does unless told otherwise. */
  listen(wanted: boolean): void {
    this.#watch.setReadable(wanted && !this.#paused && !this.#lent);
  }

  /** Receives nothing until `resume`; what is sent meanwhile waits in the socket. Replies are still sent. */
  pause(): void {
    this.#paused = true;
    this.listen(false);
  }

  resume(): void {
    this.#paused = false;
    this.listen(true);
  }

  /** As if the other side had closed, or something had failed. */
  end(reason: unknown): void {
    if (!this.#open) return;
    let told = reason;
    try {
      this.close();
    } catch (error) {
      // WHY told and not thrown: this is the event loop's call, and whoever waits for the end has to hear of it.
      told ??= error;
    }
    this.#handler.onEnd(told);
  }

  /** Ends it from this side; replies that still wait are dropped. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    clearTimeout(this.#retryTimer);
    for (const waiting of [...this.#queue]) this.#drop(waiting);
    const arrived = this.#arrived.splice(0).flatMap(({ fds }) => fds);
    // WHY later while the gate receives: whoever closes the last descriptor of a socket closes what lies in it, and that is the gate then.
    const closeSocket = () => (this.#lent ? this.#socket.shutDown() : this.#unread.close());
    releaseAll([() => this.#watch.close(), closeSocket, ...arrived.map((fd) => () => fd.close())]);
  }

  #sendWaiting(next: Waiting): Sent {
    // WHY first: descriptors that cannot be sent need not be made.
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
      // WHY as if it were sent: nobody reads it, and what the client said before it left is still to be received.
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
