/**
 * The hub's connections by number. Admits clients, passes their messages and ends to the core, and
 * releases connections that the core has forgotten.
 */
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import type { Log } from "../../base/log-events.js";
import { acquireIn } from "../../base/scope.js";
import { openFilesMax } from "../../os/open-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { Packet, SeqpacketSocket } from "../../os/seqpacket.js";
import { passDescriptors } from "../../os/socket-message.js";
import type { ThreadIdentity } from "../../os/thread-identity.js";
import { encodeMessage } from "../../wire/codec.js";
import type { Reply } from "../../wire/messages.js";
import { errorReply } from "../core/error-reply.js";
import type { HubCore } from "../core/hub-core.js";
import type { ConnectionId, Outgoing } from "../core/ports.js";
import type { DescriptorGate } from "../gate/descriptor-gate.js";
import { codeOf, describeError } from "../hub-log.js";
import type { EarlierConnection } from "../restart/inheritance.js";
import { ClientConnection, type ConnectionEvents, type Shared } from "./client-connection.js";
import { findClientProcess, peerOf } from "./client-process.js";
import { NewClients } from "./new-clients.js";
import { UnreadDescriptors } from "./unread-descriptors.js";
import { UserTurns } from "./user-turns.js";

export class ClientConnections {
  readonly #connections = new Map<ConnectionId, ClientConnection>();
  readonly #log: Log;
  readonly #onChange: (change: "admitted" | "forgotten") => void;
  /** Accepted clients that are not admitted yet. */
  readonly newClients: NewClients;
  readonly #gate: DescriptorGate;
  readonly #shared: Shared;
  #lastId: ConnectionId = 0;
  #core: HubCore<OwnedFd> | undefined;

  /**
   * @param onChange called after a client was admitted, and after a connection and everything it
   * held has ended
   */
  constructor(
    gate: DescriptorGate,
    log: Log,
    onChange: (change: "admitted" | "forgotten") => void,
  ) {
    this.#gate = gate;
    this.#log = log;
    this.#onChange = onChange;
    const turns = new UserTurns((error) =>
      log("internal-error", `cannot go on with a client: ${describeError(error)}`, codeOf(error)),
    );
    this.#shared = { turns, unread: new UnreadDescriptors() };
    this.newClients = new NewClients(turns, openFilesMax(), {
      admit: (socket) => this.#admitOrRefuse(socket),
      hangUp: (socket, uid) => gate.closeSocket(socket, uid),
      onCrowd: (uid) => {
        const found = "connects faster than the hub admits: hung up on some of these clients";
        log("user-too-fast", `user ${uid} ${found}`, { uid });
      },
    });
  }

  /** Sets the core. Not in the constructor: the core needs these connections to reply. */
  serve(core: HubCore<OwnedFd>): void {
    this.#core = core;
  }

  nextId(): ConnectionId {
    this.#lastId += 1;
    return this.#lastId;
  }

  /** Begins a connection, or replies with the reason and hangs up. */
  #admitOrRefuse(socket: SeqpacketSocket): void {
    try {
      this.#admit(socket);
      this.#onChange("admitted");
    } catch (error) {
      const { pid, uid } = socket.peerCredentials();
      const event = hasCode(error, "TOO_MANY_FDS") ? "client-not-accepted" : "client-refused";
      const fields = { pid, uid, ...codeOf(error) };
      this.#log(event, `refused a client: ${describeError(error)}`, fields);
      try {
        socket.trySend(encodeMessage(errorReply(0, error)));
      } catch (sendError) {
        const message = `could not tell it so: ${describeError(sendError)}`;
        this.#log("client-disconnected", message, { pid, uid });
      } finally {
        this.#gate.closeSocket(socket, uid);
      }
    }
  }

  /**
   * Watches the process of an earlier hub's session. A process that this hub cannot see has
   * `unseenClientMs` to come back.
   * @param kept a pidfd of the process, taken over; without it the hub looks the process up
   */
  watch(id: ConnectionId, { peer, session }: EarlierConnection, kept: OwnedFd | undefined): void {
    // Always: the number stays taken while the leases of an ended process are released.
    this.#lastId = Math.max(this.#lastId, id);
    const { thread } = session;
    const pidfd = kept ?? findClientProcess(peer);
    if (pidfd === "gone") this.#requireCore().processEnded(id);
    else {
      const connection =
        pidfd === "unseen"
          ? ClientConnection.expect(peer, defaults.unseenClientMs, this.#events(id), this.#shared)
          : ClientConnection.watch(pidfd, peer, this.#events(id), this.#shared);
      this.#connections.set(id, connection);
      // That the thread of an unseen process cannot be found proves nothing.
      if (thread !== undefined) this.watchThread(id, thread, thread.isSeen && pidfd !== "unseen");
    }
  }

  /** A pidfd of this connection's process, owned by the connection. */
  pidfdOf(id: ConnectionId): OwnedFd | undefined {
    return this.#connections.get(id)?.pidfd;
  }

  reply(
    id: ConnectionId,
    reply: Reply,
    fds: readonly OwnedFd[],
    again?: () => Outgoing<OwnedFd>,
  ): void {
    const connection = this.#connections.get(id);
    try {
      connection?.send(reply, fds, again ?? (() => ({ reply, fds: [], close: () => {} })));
    } catch (error) {
      // The client loses its connection. Other clients must not notice.
      connection?.hangUp(error);
    }
  }

  /** The other side has hung up. */
  hungUp(id: ConnectionId, reason: unknown): void {
    if (reason !== undefined) {
      const { pid, uid } = this.#connections.get(id)?.peer ?? {};
      const fields = { pid, uid, ...codeOf(reason) };
      this.#log("client-hung-up", `hung up on process ${pid}: ${describeError(reason)}`, fields);
    }
    this.#requireCore().hungUp(id);
    this.#forgetIfEnded(id);
  }

  hangUp(id: ConnectionId): void {
    this.#connections.get(id)?.hangUp();
  }

  pause(id: ConnectionId, milliseconds: number): void {
    this.#connections.get(id)?.pause(milliseconds);
  }

  /** @returns whether this hub can see the thread, or an earlier hub could */
  watchThread(id: ConnectionId, thread: ThreadIdentity, wasSeen = false): boolean {
    return this.#connections.get(id)?.watchThread(thread, wasSeen) ?? wasSeen;
  }

  /** Runs the step in a turn of this user, and again while it returns true. */
  later(id: ConnectionId, uid: number, step: () => boolean): void {
    const attempt = (): boolean => {
      let hasMore = true;
      try {
        hasMore = step();
      } catch (error) {
        this.#onReleaseFailure(error);
      }
      if (hasMore) return true;
      if (this.#connections.has(id)) this.#forgetIfEnded(id);
      // It was forgotten before, but held something until now.
      else this.#onChange("forgotten");
      return false;
    };
    const connection = this.#connections.get(id);
    if (connection === undefined) this.#shared.turns.ready(uid, { step: attempt });
    else connection.later(attempt);
  }

  forget(id: ConnectionId): void {
    const connection = this.#connections.get(id);
    this.#connections.delete(id);
    connection?.forget();
  }

  /** Tells all clients that the hub has stopped. */
  sayFarewell(): void {
    const farewell = new CudaIpcError("HUB_GONE", "The hub was stopped");
    for (const id of this.#connections.keys()) this.reply(id, errorReply(0, farewell), []);
  }

  /** Returns the releases of everything, for the caller to run. */
  releases(): (() => void)[] {
    const all = [...this.#connections.values()];
    this.#connections.clear();
    const { turns, unread } = this.#shared;
    return [
      () => this.newClients.close(),
      ...all.map((connection) => () => connection.forget()),
      () => turns.close(),
      () => unread.close(),
    ];
  }

  /** @throws UNTRUSTED_PEER, LIMIT_EXCEEDED, TOO_MANY_FDS */
  #admit(socket: SeqpacketSocket): void {
    acquireIn((scope) => {
      const pidfd = socket.peerPidfd();
      scope.defer(() => pidfd?.close());
      const peer = peerOf(socket, pidfd);
      this.#gate.check(peer.uid);
      const id = this.nextId();
      this.#requireCore().connected(id, peer);
      scope.defer(() => this.#requireCore().processEnded(id));
      passDescriptors(socket.fd, true);
      const gate = this.#gate.of(peer.uid);
      const shared = {
        ...this.#shared,
        gate,
        account: this.#requireCore().accountOfReplies(peer.uid),
      };
      this.#connections.set(
        id,
        ClientConnection.start(socket, pidfd, peer, this.#events(id), shared),
      );
      const { pid, uid } = peer;
      this.#log("client-connected", `admitted process ${pid} of user ${uid}`, { pid, uid });
    });
  }

  #events(id: ConnectionId): ConnectionEvents {
    return {
      onPacket: (packet) => this.#onPacket(id, packet),
      onHangUp: (reason) => this.hungUp(id, reason),
      onGone: () => this.#onGone(id),
      onReleaseFailure: (error) => this.#onReleaseFailure(error),
    };
  }

  #onReleaseFailure(error: unknown): void {
    const message = `cannot release all of a client: ${describeError(error)}`;
    this.#log("internal-error", message, codeOf(error));
  }

  #onPacket(id: ConnectionId, packet: Packet): void {
    const core = this.#requireCore();
    if (packet.damage === undefined) core.packet(id, packet.bytes, packet.fds);
    else core.damagedPacket(id, packet.bytes, packet.damage);
    this.#forgetIfEnded(id);
  }

  #onGone(id: ConnectionId): void {
    this.#requireCore().processEnded(id);
    this.#forgetIfEnded(id);
  }

  #forgetIfEnded(id: ConnectionId): void {
    const connection = this.#connections.get(id);
    if (connection === undefined || this.#requireCore().hasConnection(id)) return;
    const { pid, uid } = connection.peer;
    this.forget(id);
    this.#log("client-disconnected", `process ${pid} of user ${uid} is gone`, { pid, uid });
    this.#onChange("forgotten");
  }

  #requireCore(): HubCore<OwnedFd> {
    if (this.#core === undefined) throw new TypeError("connections without a core");
    return this.#core;
  }
}
