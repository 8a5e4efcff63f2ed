/**
 * Descriptors that were sent and that nobody has read yet. The kernel counts them for the user of the sender (RLIMIT_NOFILE, ETOOMANYREFS):
 * one client that reads nothing would make it refuse what the hub sends to all others. So they are charged to the client and its user, and
 * over the limit a reply waits. docs: unix(7), "SCM_RIGHTS"; SIOCOUTQ.
 */
import { hasCode } from "../base/errors.js";
import type { SeqpacketSocket } from "../os/seqpacket.js";
import type { Account } from "./quota.js";

/** All sockets of a hub on which something is under way. */
export class UnreadDescriptors {
  readonly #pending = new Set<UnreadOfSocket>();
  /** Sockets that were hung up on before all was read. */
  readonly #lingering = new Set<UnreadOfSocket>();
  #timer: NodeJS.Timeout | undefined;

  /** @param closeSocket called once */
  of(socket: SeqpacketSocket, account: Account, closeSocket = () => socket.close()): UnreadOfSocket {
    return new UnreadOfSocket(socket, account, this, closeSocket);
  }

  add(one: UnreadOfSocket): void {
    this.#pending.add(one);
  }

  delete(one: UnreadOfSocket): void {
    this.#pending.delete(one);
  }

  /** Forgets what was read meanwhile. WHY not as it is read: nobody tells. */
  settle(): void {
    for (const one of this.#pending) one.settle();
  }

  /** Closes a socket once all was read, or nobody is left to. WHY not before: the kernel counts on, and nobody would know of it. */
  closeWhenRead(one: UnreadOfSocket): void {
    this.#lingering.add(one);
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const { closeSocket } of this.#lingering) closeSocket();
    this.#lingering.clear();
    this.#pending.clear();
  }

  #look(): void {
    for (const one of this.#lingering) {
      if (!one.settle()) continue;
      this.#lingering.delete(one);
      one.closeSocket();
    }
    if (this.#lingering.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

const LOOK_MS = 50;
const FEW = 32;

export class UnreadOfSocket {
  readonly socket: SeqpacketSocket;
  readonly closeSocket: () => void;
  readonly #account: Account;
  readonly #all: UnreadDescriptors;
  #count = 0;

  constructor(socket: SeqpacketSocket, account: Account, all: UnreadDescriptors, closeSocket: () => void) {
    this.socket = socket;
    this.closeSocket = closeSocket;
    this.#account = account;
    this.#all = all;
  }

  /** Counts descriptors that are about to be sent. False where they would be too many. */
  tryAdd(count: number): boolean {
    if (count === 0) return true;
    // WHY not each time: it is a call more for each reply, and few hold up nobody.
    if (this.#count >= FEW) this.settle();
    if (this.#tryCharge(count)) return true;
    this.#all.settle();
    return this.#tryCharge(count);
  }

  /** Whether so many more could be sent now. */
  hasRoomFor(count: number): boolean {
    if (!this.tryAdd(count)) return false;
    this.takeBack(count);
    return true;
  }

  /** They were not sent. */
  takeBack(count: number): void {
    this.#set(this.#count - count);
  }

  /** Whether all was read. */
  settle(): boolean {
    if (this.#count > 0 && this.socket.unreadBytes() === 0) this.#set(0);
    return this.#count === 0;
  }

  /** Closes the socket, at once or when all was read; others can send no more on it. */
  close(): void {
    if (this.settle()) this.closeSocket();
    else {
      this.socket.shutDown();
      this.#all.closeWhenRead(this);
    }
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
