/**
 * One client's connection as the hub sees it: what it sends, and its two ends, the hang-up of its socket and the end of its
 * process. Of a client of an earlier hub that has not come back there is only the process.
 */
import { limits } from "../base/limits.js";
import { releaseAll } from "../base/scope.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { PacketChannel, type PacketHandler } from "../os/packet-channel.js";
import { ProcessWatch } from "../os/process-watch.js";
import type { SeqpacketSocket } from "../os/seqpacket.js";
import type { ThreadIdentity } from "../os/thread-identity.js";
import type { Peer } from "./ports.js";
import { ThreadWatch } from "./thread-watch.js";

export interface ConnectionEvents extends Pick<PacketHandler, "onPacket"> {
  /** The socket hung up: nobody reads replies any more. */
  onHangUp(reason: unknown): void;
  /** The process has ended, with all its work on GPUs, or the thread that the session belongs to. Follows the hang-up; at once where it had ended before it was served. */
  onGone(): void;
  /** Something could not be released: nobody is there to be thrown at, and the connection goes on or ends as if it had been. */
  onReleaseFailure(error: unknown): void;
}

export class ClientConnection {
  readonly peer: Peer;
  readonly #channel: PacketChannel | undefined;
  readonly #events: ConnectionEvents;
  #process: ProcessWatch | undefined;
  #resumeTimer: NodeJS.Timeout | undefined;
  #thread: ThreadWatch | undefined;
  #returnTimer: NodeJS.Timeout | undefined;
  #gone = false;

  private constructor(
    peer: Peer,
    socket: SeqpacketSocket | undefined,
    pidfd: OwnedFd | undefined,
    events: ConnectionEvents,
  ) {
    this.peer = peer;
    this.#events = events;
    this.#process = pidfd === undefined ? undefined : new ProcessWatch(pidfd, () => this.#onExit());
    const handler: PacketHandler = {
      onPacket: (packet) => events.onPacket(packet),
      onEnd: (reason) => this.#onHangUp(reason),
    };
    const options = { receiveWhileQueuedMax: limits.unreadRepliesMax };
    this.#channel = socket === undefined ? undefined : new PacketChannel(socket, handler, options);
  }

  /** Takes over socket and pidfd, unless it throws. */
  static start(
    socket: SeqpacketSocket,
    pidfd: OwnedFd | undefined,
    peer: Peer,
    events: ConnectionEvents,
  ): ClientConnection {
    return new ClientConnection(peer, socket, pidfd, events);
  }

  /** Of a client of an earlier hub: only watches its process. Takes over the pidfd. */
  static watch(pidfd: OwnedFd, peer: Peer, events: ConnectionEvents): ClientConnection {
    return new ClientConnection(peer, undefined, pidfd, events);
  }

  /**
   * Of a client of an earlier hub whose process cannot be watched: it counts as gone unless `forget` is called within this time, as it is
   * once another connection of the process has taken this one's place.
   */
  static expect(peer: Peer, withinMs: number, events: ConnectionEvents): ClientConnection {
    const connection = new ClientConnection(peer, undefined, undefined, events);
    connection.#returnTimer = setTimeout(() => connection.#onExit(), withinMs);
    return connection;
  }

  get open(): boolean {
    return this.#channel?.open ?? false;
  }

  send(bytes: Uint8Array, fds: readonly OwnedFd[]): void {
    if (this.open) this.#channel?.send(bytes, fds);
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

  #onExit(): void {
    if (this.#gone) return;
    // WHY: what the process said last still counts, a publish above all; its end may be noticed before its words.
    this.#channel?.drain();
    if (this.#gone) return;
    if (this.open) this.#events.onHangUp(undefined);
    if (this.#gone) return;
    this.forget();
    this.#events.onGone();
  }
}
