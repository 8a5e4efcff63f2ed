/**
 * One client's connection: its messages and its two ends, the hang-up of its socket and the end of
 * its process. A client of an earlier hub that has not come back is only a process.
 */
import { releaseAll } from "../../base/scope.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { ProcessWatch } from "../../os/process-watch.js";
import type { SeqpacketSocket } from "../../os/seqpacket.js";
import type { ThreadIdentity } from "../../os/thread-identity.js";
import type { Reply } from "../../wire/messages.js";
import type { Outgoing, Peer } from "../core/ports.js";
import type { UserGate } from "../gate/descriptor-gate.js";
import type { Account } from "../limits/quota.js";
import { ClientSocket, type ClientSocketHandler } from "./client-socket.js";
import { ThreadWatch } from "./thread-watch.js";
import type { UnreadDescriptors } from "./unread-descriptors.js";
import type { Job, UserTurns } from "./user-turns.js";

export interface Shared {
  readonly turns: UserTurns;
  readonly unread: UnreadDescriptors;
}

/**
 * The most messages that the hub reads from a client whose process has ended. Another process, such
 * as a child, may have its socket too and send for ever.
 */
const LAST_WORDS_MAX = 16_384;

export interface ConnectionEvents extends Pick<ClientSocketHandler, "onPacket"> {
  /** The socket hung up. Nobody reads replies any more. */
  onHangUp(reason: unknown): void;
  /**
   * The process has ended, with all its GPU work, or the session's thread has. Follows the hang-up.
   * Comes at once if the process had ended before the hub served it.
   */
  onGone(): void;
  /** A release failed. The connection goes on or ends as if it had succeeded. */
  onReleaseFailure(error: unknown): void;
}

export class ClientConnection implements Job {
  readonly peer: Peer;
  readonly #channel: ClientSocket | undefined;
  readonly #turns: UserTurns;
  /** Steps of the core that run before the next message of this client. */
  readonly #steps: (() => boolean)[] = [];
  readonly #events: ConnectionEvents;
  #process: ProcessWatch | undefined;
  #resumeTimer: NodeJS.Timeout | undefined;
  #thread: ThreadWatch | undefined;
  #returnTimer: NodeJS.Timeout | undefined;
  #gone = false;
  #hasExited = false;
  #lastWords = 0;
  /** Whether it waits for its turn. */
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

  /** Takes over socket and pidfd unless it throws. */
  static start(
    socket: SeqpacketSocket,
    pidfd: OwnedFd | undefined,
    peer: Peer,
    events: ConnectionEvents,
    {
      turns,
      unread,
      gate,
      account,
    }: Shared & { readonly gate: UserGate; readonly account: Account },
  ): ClientConnection {
    const open = (handler: ClientSocketHandler) =>
      new ClientSocket(socket, account, { unread, gate }, handler);
    return new ClientConnection(peer, pidfd, turns, events, open);
  }

  /** Watches the process of an earlier hub's client. Takes over the pidfd. */
  static watch(
    pidfd: OwnedFd,
    peer: Peer,
    events: ConnectionEvents,
    { turns }: Shared,
  ): ClientConnection {
    return new ClientConnection(peer, pidfd, turns, events, () => undefined);
  }

  /**
   * Expects the client of an earlier hub whose process the hub cannot see. It counts as ended
   * unless `forget` is called in time, which happens when the process connects again.
   */
  static expect(
    peer: Peer,
    withinMs: number,
    events: ConnectionEvents,
    { turns }: Shared,
  ): ClientConnection {
    const connection = new ClientConnection(peer, undefined, turns, events, () => undefined);
    connection.#returnTimer = setTimeout(() => connection.#onExit(), withinMs);
    return connection;
  }

  get open(): boolean {
    return this.#channel?.open ?? false;
  }

  /** A pidfd of the client's process, owned by the connection. Undefined once it has ended. */
  get pidfd(): OwnedFd | undefined {
    return this.#process?.pidfd;
  }

  /** See `ClientSocket.send`. */
  send(reply: Reply, fds: readonly OwnedFd[], again: () => Outgoing<OwnedFd>): void {
    if (this.open) this.#channel?.send(reply, fds, again);
  }

  /**
   * Runs a step in this client's turn, before its next message, and again while it returns true.
   */
  later(step: () => boolean): void {
    this.#steps.push(step);
    this.#takeTurn();
  }

  /** Does one thing: sends a waiting reply, runs a step, or handles a message. */
  step(): boolean {
    const channel = this.#channel;
    let hasMore = false;
    if (channel?.open) {
      hasMore = this.#attempt(() => channel.flush());
      // A client that does not read its replies gets nothing else done.
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
    // The socket stays readable until its turn comes, and would report it again and again.
    if (this.#waits) this.#channel?.listen(false);
    else this.#takeTurn();
  }

  /** Ends a socket that fails: nothing can be read from it or sent on it. */
  #attempt(act: () => boolean): boolean {
    try {
      return act();
    } catch (error) {
      this.#channel?.end(error);
      return false;
    }
  }

  /**
   * Ends the session with this thread.
   * @returns whether the hub can see the thread, or an earlier hub could
   */
  watchThread(thread: ThreadIdentity, wasSeen: boolean): boolean {
    this.#thread?.close();
    this.#thread = new ThreadWatch(this.peer.pid, thread, wasSeen, () => this.#onExit());
    if (!this.open) this.#thread.hungUp();
    return this.#thread.isSeen;
  }

  /** Reads no messages for so long. */
  pause(milliseconds: number): void {
    if (!this.open) return;
    this.#channel?.pause();
    clearTimeout(this.#resumeTimer);
    this.#resumeTimer = setTimeout(() => this.#channel?.resume(), milliseconds);
  }

  /**
   * Hangs up from this side. The session still ends with its process unless `forget` is called. The
   * event comes later, because the caller may be in the middle of a change.
   */
  hangUp(reason?: unknown): void {
    if (!this.open) return;
    this.#release([() => this.#channel?.close()]);
    setImmediate(() => this.#onHangUp(reason));
  }

  /**
   * Releases everything without further events: the session holds nothing, another connection has
   * it, or the hub ends.
   */
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

  /**
   * WHY in its turn: the process's last messages still count, above all a publish, and its end may
   * be noticed before them.
   */
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
