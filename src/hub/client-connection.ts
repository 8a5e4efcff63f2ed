/**
 * One client's connection as the hub sees it: what it sends, and its two ends, the hang-up of its socket and the end of its
 * process. Of a client of an earlier hub that has not come back there is only the process.
 */
import { releaseAll } from "../base/scope.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ProcessWatch } from "../os/process-watch.js";
import type { SeqpacketSocket } from "../os/seqpacket.js";
import type { ThreadIdentity } from "../os/thread-identity.js";
import type { Reply } from "../wire/messages.js";
import { ClientSocket, type ClientSocketHandler } from "./client-socket.js";
import type { UserGate } from "./descriptor-gate.js";
import type { Outgoing, Peer } from "./ports.js";
import type { Account } from "./quota.js";
import { ThreadWatch } from "./thread-watch.js";
import type { UnreadDescriptors } from "./unread-descriptors.js";
import type { Job, UserTurns } from "./user-turns.js";

/** What a connection shares with the others of the hub. */
export interface Shared {
  readonly turns: UserTurns;
  readonly unread: UnreadDescriptors;
}

/**
 * Messages that are taken of a client whose process has ended. WHY any limit: another process may have its socket too, a child above
 * all, and send for ever.
 */
const LAST_WORDS_MAX = 16_384;

export interface ConnectionEvents extends Pick<ClientSocketHandler, "onPacket"> {
  /** The socket hung up: nobody reads replies any more. */
  onHangUp(reason: unknown): void;
  /**
   * The process has ended, with all its work on GPUs, or the thread that the session belongs to. Follows the hang-up, and
   * comes at once if the process had ended before it was served.
   */
  onGone(): void;
  /** Something could not be released: nobody is there to be thrown at, and the connection goes on or ends as if it had been. */
  onReleaseFailure(error: unknown): void;
}

export class ClientConnection implements Job {
  readonly peer: Peer;
  readonly #channel: ClientSocket | undefined;
  readonly #turns: UserTurns;
  /** What the core goes on with before this client is listened to again. */
  readonly #steps: (() => boolean)[] = [];
  readonly #events: ConnectionEvents;
  #process: ProcessWatch | undefined;
  #resumeTimer: NodeJS.Timeout | undefined;
  #thread: ThreadWatch | undefined;
  #returnTimer: NodeJS.Timeout | undefined;
  #gone = false;
  #hasExited = false;
  #lastWords = 0;
  /** Whether it has a turn to come. */
  #waits = false;

  private constructor(
    peer: Peer,
    pidfd: OwnedFd | undefined,
    turns: UserTurns,
    events: ConnectionEvents,
    open: (handler: ClientSocketHandler) => ClientSocket | undefined,
  ) {
    this.peer = peer;
    this.#turns = turns;
    this.#events = events;
    this.#channel = open({
      onReady: () => this.#onReady(),
      onPacket: (packet) => events.onPacket(packet),
      onEnd: (reason) => this.#onHangUp(reason),
    });
    this.#process = pidfd === undefined ? undefined : new ProcessWatch(pidfd, () => this.#onExit());
  }

  /** Takes over socket and pidfd, unless it throws. */
  static start(
    socket: SeqpacketSocket,
    pidfd: OwnedFd | undefined,
    peer: Peer,
    events: ConnectionEvents,
    { turns, unread, gate, account }: Shared & { readonly gate: UserGate; readonly account: Account },
  ): ClientConnection {
    const open = (handler: ClientSocketHandler) => new ClientSocket(socket, account, { unread, gate }, handler);
    return new ClientConnection(peer, pidfd, turns, events, open);
  }

  /** Of a client of an earlier hub: only watches its process. Takes over the pidfd. */
  static watch(pidfd: OwnedFd, peer: Peer, events: ConnectionEvents, { turns }: Shared): ClientConnection {
    return new ClientConnection(peer, pidfd, turns, events, () => undefined);
  }

  /**
   * Of a client of an earlier hub whose process cannot be watched: it counts as gone unless `forget` is called within this time, as it is
   * once another connection of the process has taken this one's place.
   */
  static expect(peer: Peer, withinMs: number, events: ConnectionEvents, { turns }: Shared): ClientConnection {
    const connection = new ClientConnection(peer, undefined, turns, events, () => undefined);
    connection.#returnTimer = setTimeout(() => connection.#onExit(), withinMs);
    return connection;
  }

  get open(): boolean {
    return this.#channel?.open ?? false;
  }

  /** Of the client's process, which stays the connection's; undefined once that has ended. */
  get pidfd(): OwnedFd | undefined {
    return this.#process?.pidfd;
  }

  /** As `ClientSocket.send`. */
  send(reply: Reply, fds: readonly OwnedFd[], again: () => Outgoing<OwnedFd>): void {
    if (this.open) this.#channel?.send(reply, fds, again);
  }

  /** Takes a step in this client's turn, before anything more of it is read, and again while it returns true. */
  later(step: () => boolean): void {
    this.#steps.push(step);
    this.#takeTurn();
  }

  /** One thing at a time: a reply that waits, a step of what goes on already, a message. */
  step(): boolean {
    const channel = this.#channel;
    let hasMore = false;
    if (channel?.open) {
      hasMore = this.#attempt(() => channel.flush());
      // WHY nothing else: whoever does not read its answers asks for no more.
      if (channel.open && channel.isCrowded && !this.#hasExited) return this.#rest(hasMore);
    }
    const [step] = this.#steps;
    if (step !== undefined) {
      if (!step()) this.#steps.shift();
      return true;
    }
    if (channel?.open) hasMore = this.#attempt(() => channel.receive(this.#hasExited)) || hasMore;
    if (this.#hasExited && !this.#gone && !channel?.isLent) {
      this.#lastWords += 1;
      if (!hasMore || this.#lastWords > LAST_WORDS_MAX) this.#finish();
    }
    return this.#rest(hasMore || this.#steps.length > 0);
  }

  #rest(hasMore: boolean): boolean {
    if (hasMore) return true;
    this.#waits = false;
    if (this.open) this.#channel?.listen(!this.#channel.isCrowded);
    return false;
  }

  #takeTurn(): void {
    if (this.#waits) return;
    this.#waits = true;
    this.#turns.ready(this.peer.uid, this);
  }

  #onReady(): void {
    // WHY: it is told again and again until it is read, and its turn is still to come.
    if (this.#waits) this.#channel?.listen(false);
    else this.#takeTurn();
  }

  /** WHY ended: nothing can be read of a socket, or sent on it, that fails. */
  #attempt(act: () => boolean): boolean {
    try {
      return act();
    } catch (error) {
      this.#channel?.end(error);
      return false;
    }
  }

  /** Its session ends with this thread. @returns whether the thread can be seen, or could be */
  watchThread(thread: ThreadIdentity, wasSeen: boolean): boolean {
    this.#thread?.close();
    this.#thread = new ThreadWatch(this.peer.pid, thread, wasSeen, () => this.#onExit());
    if (!this.open) this.#thread.hungUp();
    return this.#thread.isSeen;
  }

  /** Takes no messages for so long. */
  pause(milliseconds: number): void {
    if (!this.open) return;
    this.#channel?.pause();
    clearTimeout(this.#resumeTimer);
    this.#resumeTimer = setTimeout(() => this.#channel?.resume(), milliseconds);
  }

  /**
   * Hangs up from this side. The session still ends with its process, unless `forget` is called.
   * WHY the event comes later: whoever hangs up may be in the middle of a change that the event would meet half-done.
   */
  hangUp(reason?: unknown): void {
    if (!this.open) return;
    this.#release([() => this.#channel?.close()]);
    setImmediate(() => this.#onHangUp(reason));
  }

  /** Releases everything without further events: the session has nothing left, another connection has it, or the hub ends. */
  forget(): void {
    this.#steps.length = 0;
    this.#close();
  }

  #close(): void {
    this.#gone = true;
    clearTimeout(this.#resumeTimer);
    this.#thread?.close();
    clearTimeout(this.#returnTimer);
    const watch = this.#process;
    this.#process = undefined;
    this.#release([() => this.#channel?.close(), () => watch?.close()]);
  }

  #release(releases: readonly (() => void)[]): void {
    try {
      releaseAll(releases);
    } catch (error) {
      this.#events.onReleaseFailure(error);
    }
  }

  #onHangUp(reason: unknown): void {
    if (this.#gone) return;
    clearTimeout(this.#resumeTimer);
    this.#events.onHangUp(reason);
    if (this.#process === undefined || this.#process.exited) this.#onExit();
    else this.#thread?.hungUp();
  }

  /** WHY in its turn: what the process said last still counts, a publish above all, and its end may be noticed before its words. */
  #onExit(): void {
    this.#hasExited = true;
    this.#takeTurn();
  }

  #finish(): void {
    if (this.open) this.#events.onHangUp(undefined);
    if (this.#gone) return;
    this.#close();
    this.#events.onGone();
  }
}
