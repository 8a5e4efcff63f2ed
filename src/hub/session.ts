/**
 * One client's connection as the hub sees it: who it is, what it sends, and its two ends,
 * the hang-up of its socket and the end of its process.
 */
import { acquireIn, releaseAll } from "../base/scope.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { PacketHandler } from "../os/packet-channel.js";
import { PacketChannel } from "../os/packet-channel.js";
import { ProcessWatch } from "../os/process-watch.js";
import type { PeerCredentials, SeqpacketSocket } from "../os/seqpacket.js";

export interface SessionEvents extends Pick<PacketHandler, "onPacket"> {
  /** The socket hung up: nobody reads replies any more. */
  onHangUp(reason: unknown): void;
  /** The process has ended, with all its work on GPUs. Follows the hang-up; at once where it had ended before it was served. */
  onGone(): void;
  /** Something could not be released: nobody is there to be thrown at, and the session goes on or ends as if it had been. */
  onReleaseFailure(error: unknown): void;
}

export class Session {
  readonly credentials: PeerCredentials;
  readonly channel: PacketChannel;
  readonly #events: SessionEvents;
  #process: ProcessWatch | undefined;
  #gone = false;

  private constructor(
    socket: SeqpacketSocket,
    credentials: PeerCredentials,
    pidfd: OwnedFd | undefined,
    events: SessionEvents,
  ) {
    this.credentials = credentials;
    this.#events = events;
    this.#process = pidfd === undefined ? undefined : new ProcessWatch(pidfd, () => this.#onExit());
    this.channel = new PacketChannel(socket, {
      onPacket: (packet) => events.onPacket(packet),
      onEnd: (reason) => this.#onHangUp(reason),
    });
  }

  /**
   * Takes over the socket, unless it throws.
   * @throws TOO_MANY_FDS
   */
  static start(socket: SeqpacketSocket, credentials: PeerCredentials, events: SessionEvents): Session {
    return acquireIn((scope) => {
      const pidfd = socket.peerPidfd();
      scope.defer(() => pidfd?.close());
      return new Session(socket, credentials, pidfd, events);
    });
  }

  /**
   * Hangs up from this side. The session still ends with its process, unless `forget` is called.
   * WHY the event comes later: whoever hangs up may be in the middle of a change that the event would meet half-done.
   */
  hangUp(reason?: unknown): void {
    if (!this.channel.open) return;
    this.#release([() => this.channel.close()]);
    setImmediate(() => this.#onHangUp(reason));
  }

  /** Releases everything without further events: the session has nothing left, or the hub ends. */
  forget(): void {
    this.#gone = true;
    const watch = this.#process;
    this.#process = undefined;
    this.#release([() => this.channel.close(), () => watch?.close()]);
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
    this.#events.onHangUp(reason);
    if (this.#process === undefined || this.#process.exited) this.#onExit();
  }

  #onExit(): void {
    if (this.#gone) return;
    // WHY: what the process said last still counts, a publish above all; its end may be noticed before its words.
    this.channel.drain();
    if (this.#gone) return;
    if (this.channel.open) this.#events.onHangUp(undefined);
    if (this.#gone) return;
    this.forget();
    this.#events.onGone();
  }
}
