/**
 * Counts descriptors that were sent and not read yet. The kernel counts them for the sender's user
 * (RLIMIT_NOFILE, ETOOMANYREFS): one client that reads nothing could stop the hub from sending to
 * all others. So they are charged to the client and its user, and a reply over the limit waits.
 * docs: unix(7), "SCM_RIGHTS"; SIOCOUTQ.
 */
import { hasCode } from "../../base/errors.js";
import type { SeqpacketSocket } from "../../os/seqpacket.js";
import type { Account } from "../limits/quota.js";

/** All sockets of the hub with unread descriptors. */
export class UnreadDescriptors {
  readonly #pending = new Set<UnreadOfSocket>();
  /** Closed connections whose sockets still have unread descriptors. */
  readonly #lingering = new Set<UnreadOfSocket>();
  #timer: NodeJS.Timeout | undefined;

  /** @param closeSocket called once */
  of(
    socket: SeqpacketSocket,
    account: Account,
    closeSocket = () => socket.close(),
  ): UnreadOfSocket {
    return new UnreadOfSocket(socket, account, this, closeSocket);
  }

  add(one: UnreadOfSocket): void {
    this.#pending.add(one);
  }

  delete(one: UnreadOfSocket): void {
    this.#pending.delete(one);
  }

  /** Forgets what was read meanwhile. Nothing reports when it is read. */
  settle(): void {
    for (const one of this.#pending) one.settle();
  }

  /**
   * Closes a socket once everything is read or its reader is gone. WHY not before: the kernel goes
   * on counting, and the hub would not know.
   */
  closeWhenRead(one: UnreadOfSocket): void {
    this.#lingering.add(one);
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const one of this.#lingering) one.endLinger();
    this.#lingering.clear();
    this.#pending.clear();
  }

  #look(): void {
    for (const one of this.#lingering) {
      if (!one.settle()) continue;
      this.#lingering.delete(one);
      one.endLinger();
    }
    if (this.#lingering.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

const LOOK_MS = 50;
const FEW = 32;
const ONE_CLIENT = { clients: 1 };

export class UnreadOfSocket {
  readonly socket: SeqpacketSocket;
  readonly #closeSocket: () => void;
  readonly #account: Account;
  readonly #all: UnreadDescriptors;
  #count = 0;

  constructor(
    socket: SeqpacketSocket,
    account: Account,
    all: UnreadDescriptors,
    closeSocket: () => void,
  ) {
    this.socket = socket;
    this.#closeSocket = closeSocket;
    this.#account = account;
    this.#all = all;
  }

  /** Counts descriptors that are about to be sent. Returns false if they are too many. */
  tryAdd(count: number): boolean {
    if (count === 0) return true;
    // WHY only from here on: it is one more call for each reply, and few descriptors harm nobody.
    if (this.#count >= FEW) this.settle();
    if (this.#tryCharge(count)) return true;
    this.#all.settle();
    return this.#tryCharge(count);
  }

  hasRoomFor(count: number): boolean {
    if (!this.tryAdd(count)) return false;
    this.takeBack(count);
    return true;
  }

  /** Uncounts descriptors that were not sent. */
  takeBack(count: number): void {
    this.#set(this.#count - count);
  }

  /** Updates the count. Returns whether everything is read. */
  settle(): boolean {
    if (this.#count > 0 && this.socket.unreadBytes() === 0) this.#set(0);
    return this.#count === 0;
  }

  /**
   * Closes the socket, now or when everything is read. Nobody can send on it meanwhile, and it
   * counts as a client: otherwise its user could fill the hub's table of open files.
   */
  close(): void {
    if (this.settle()) this.#closeSocket();
    else {
      this.socket.shutDown();
      this.#account.take(ONE_CLIENT);
      this.#all.closeWhenRead(this);
    }
  }

  /** For `UnreadDescriptors`. Call it once. */
  endLinger(): void {
    this.#account.refund(ONE_CLIENT);
    this.#closeSocket();
  }

  #tryCharge(count: number): boolean {
    try {
      this.#account.charge("send descriptors", { unreadDescriptors: count });
    } catch (error) {
      if (hasCode(error, "LIMIT_EXCEEDED")) return false;
      throw error;
    }
    this.#count += count;
    this.#all.add(this);
    return true;
  }

  #set(count: number): void {
    this.#account.refund({ unreadDescriptors: this.#count - count });
    this.#count = count;
    if (count === 0) this.#all.delete(this);
  }
}
