/**
 * One connection to the hub. Requests have numbers, and each reply names the number of its request.
 * If the caller has given up by then, the lease in the reply is given back.
 */
import { Deadline } from "../../base/deadline.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { defaults, limits } from "../../base/limits.js";
import { packageVersion } from "../../base/own-package.js";
import { closeFds } from "../../os/foreign-fd.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { PacketChannel } from "../../os/packet-channel.js";
import type { Packet, PeerCredentials, SeqpacketSocket } from "../../os/seqpacket.js";
import { ownThread } from "../../os/thread-identity.js";
import { decodeResult, encodeMessage } from "../../wire/codec.js";
import {
  PROTOCOL_VERSION,
  type Request,
  type RequestOf,
  type ResultOf,
} from "../../wire/messages.js";
import { hubSilence, leaseOf, readReply } from "./hub-reply.js";
import { checkHubUser } from "./hub-trust.js";
import { KeepAlive } from "./keep-alive.js";

export type Fields<Op extends Request["op"]> = Omit<RequestOf<Op>, "v" | "id" | "op">;

export interface Answer<Op extends Request["op"]> {
  readonly result: ResultOf<Op>;
  /** Owned by the receiver. */
  readonly fds: readonly OwnedFd[];
}

interface Pending {
  /** Takes over the packet's descriptors. */
  settle(packet: Packet, result: unknown): void;
  fail(error: unknown): void;
}

/** The entry of a request whose answer is ignored. */
const UNAWAITED: Pending = { settle: (packet) => closeFds(packet.fds), fail: () => {} };

export class HubConnection {
  readonly socketPath: string;
  readonly hubPid: number;
  readonly hubUid: number;
  readonly channel: PacketChannel;
  readonly #pending = new Map<number, Pending>();
  readonly #onEnd: Set<(reason: CudaIpcError) => void> = new Set();
  #greeting: ResultOf<"hello"> | undefined;
  #lastId = 0;
  #ended: CudaIpcError | undefined;
  #closing = false;

  private constructor(socketPath: string, socket: SeqpacketSocket, hub: PeerCredentials) {
    this.socketPath = socketPath;
    this.hubPid = hub.pid;
    this.hubUid = hub.uid;
    const handler = {
      onPacket: (packet: Packet) => this.#onPacket(packet),
      onEnd: (reason: unknown) => this.#end(reason),
    };
    this.channel = new PacketChannel(socket, handler, {
      queueMessagesMax: limits.clientQueueMessagesMax,
    });
  }

  /**
   * Says hello to a hub of a trusted user. Takes over the socket.
   * @param session continues the leases of an earlier connection of this process
   * @throws UNTRUSTED_PEER, PROTOCOL_MISMATCH, Farewell
   */
  static async open(
    socketPath: string,
    socket: SeqpacketSocket,
    program: string,
    deadline: Deadline,
    trusted: ReadonlySet<number>,
    session?: number,
    keepAlive = new KeepAlive(),
  ): Promise<HubConnection> {
    let connection: HubConnection;
    try {
      const peer = socket.peerCredentials();
      checkHubUser(socketPath, peer.uid, trusted);
      connection = new HubConnection(socketPath, socket, peer);
    } catch (error) {
      socket.close();
      throw error;
    }
    const greeted = {
      ref: () => connection.setReferenced(true),
      unref: () => connection.setReferenced(false),
    };
    keepAlive.hold(greeted);
    try {
      const client = { version: packageVersion(), program };
      const thread = ownThread();
      const resume = session === undefined ? undefined : { session };
      const fields = { client, ...(resume && { resume }), ...(thread && { thread }) };
      connection.#greeting = await connection.request("hello", fields, deadline);
      return connection;
    } catch (error) {
      connection.abandon();
      throw error;
    } finally {
      keepAlive.release(greeted);
    }
  }

  /** Names the leases of this connection to a later one of this process. */
  get session(): number {
    return this.#greeting?.session ?? 0;
  }

  /** True if the session that was asked for continues. */
  get resumed(): boolean {
    return this.#greeting?.resumed ?? false;
  }

  /** Why the connection ended. Every pending request fails with this very error. */
  get endReason(): CudaIpcError | undefined {
    return this.#ended;
  }

  /** Calls the listener once if the connection ends other than by `close`. */
  onEnd(listener: (reason: CudaIpcError) => void): void {
    this.#onEnd.add(listener);
  }

  /** Sends a request and waits for its answer. The descriptors stay the caller's. */
  async ask<Op extends Request["op"]>(
    op: Op,
    fields: Fields<Op>,
    deadline: Deadline,
    fds: readonly OwnedFd[] = [],
  ): Promise<Answer<Op>> {
    if (this.#ended !== undefined) throw this.#ended;
    deadline.check();
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = new Promise<Answer<Op>>((resolve, reject) => {
      const settle = (packet: Packet, result: unknown) => {
        try {
          const decoded = decodeResult(op, result);
          if (packet.damage !== undefined) throw packet.damage;
          resolve({ result: decoded, fds: packet.fds });
        } catch (error) {
          closeFds(packet.fds);
          this.#giveBack(result);
          reject(error);
        }
      };
      this.#pending.set(id, { settle, fail: reject });
    });
    try {
      this.channel.send(
        encodeMessage({ v: PROTOCOL_VERSION, id, op, ...fields } as unknown as Request),
        fds,
      );
    } catch (error) {
      // The end of the connection fails this request like all others, after the hub's last words.
      if (!hasCode(error, "PEER_GONE")) {
        this.#pending.delete(id);
        throw error;
      }
    }
    let isGivenUp = false;
    try {
      return await deadline.race(answer, () => {
        isGivenUp = true;
        this.#giveBackLate(answer);
      });
    } catch (error) {
      const told = isGivenUp ? await this.#givenUp(op, id, deadline, error) : error;
      // The error was made when a packet came. Its stack should show the caller, not the socket.
      if (told instanceof Error) Error.captureStackTrace(told);
      throw told;
    }
  }

  /** As `ask`, for requests that are answered without descriptors. */
  async request<Op extends Request["op"]>(
    op: Op,
    fields: Fields<Op>,
    deadline: Deadline,
    fds: readonly OwnedFd[] = [],
  ): Promise<ResultOf<Op>> {
    const answer = await this.ask(op, fields, deadline, fds);
    closeFds(answer.fds);
    return answer.result;
  }

  /** Gives back a lease, in order with all other requests. Nobody waits for the answer. */
  release(lease: number): void {
    this.#post((id) => ({ v: PROTOCOL_VERSION, id, op: "release", lease }));
  }

  setReferenced(referenced: boolean): void {
    this.channel.setReferenced(referenced);
  }

  /**
   * Says goodbye, so that the hub frees everything at once, and hangs up.
   * Returns false if the connection ended before the hub had answered.
   */
  async close(deadline: Deadline): Promise<boolean> {
    if (this.#ended !== undefined) return false;
    this.#onEnd.clear();
    this.#closing = true;
    try {
      await this.request("bye", {}, deadline);
      return true;
    } catch (error) {
      if (this.#ended === undefined) throw error;
      return false;
    } finally {
      this.abandon();
    }
  }

  /** Hangs up. The hub keeps the leases of this connection until the process ends. */
  abandon(): void {
    this.#onEnd.clear();
    this.#closing = true;
    this.channel.close();
    this.#end(undefined);
  }

  #onPacket(packet: Packet): void {
    // A message without its descriptors is whole, and concerns its request alone.
    if (hasCode(packet.damage, "MESSAGE_TOO_LARGE")) throw packet.damage;
    const reply = readReply(packet);
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if (reply.error !== undefined) {
      if (pending === undefined) throw reply.error;
      pending.fail(reply.error);
      return;
    }
    if (pending !== undefined) {
      pending.settle(packet, reply.result);
      return;
    }
    closeFds(packet.fds);
    throw new CudaIpcError(
      "INVALID_MESSAGE",
      `The hub answered request ${reply.id}, which was never sent`,
    );
  }

  /** Awaits the answer all the same: the hub would keep a lease that nobody gives back. */
  #giveBackLate<Op extends Request["op"]>(answer: Promise<Answer<Op>>): void {
    answer.then(
      ({ result, fds }) => {
        closeFds(fds);
        this.#giveBack(result);
      },
      () => {
        // Refused or cut off: there is nothing to give back.
      },
    );
  }

  /** Adds to a TIMEOUT why the hub has not answered. The hub says what an open waits for. */
  async #givenUp(
    op: Request["op"],
    id: number,
    deadline: Deadline,
    error: unknown,
  ): Promise<unknown> {
    const isLate = hasCode(error, "TIMEOUT");
    if (!isLate && op === "open")
      this.#post((cancel) => ({ v: PROTOCOL_VERSION, id: cancel, op: "cancel", request: id }));
    if (!isLate) return error;
    if (op !== "open" || this.#ended !== undefined) return deadline.timedOut(hubSilence(this, op));
    const explanation = new Deadline(`ask why request ${id} waits`, {}, defaults.explanationMs);
    try {
      const { found } = await this.request("cancel", { request: id, explain: true }, explanation);
      return deadline.timedOut(`${found}; the hub is at ${this.socketPath}`);
    } catch (failure) {
      return deadline.timedOut(hasCode(failure, "TIMEOUT") ? hubSilence(this, op) : undefined);
    }
  }

  #giveBack(result: unknown): void {
    const lease = leaseOf(result);
    if (lease !== undefined) this.release(lease);
  }

  /** Sends a request whose answer is ignored. If it cannot be sent, the connection ends. */
  #post(request: (id: number) => Request): void {
    if (this.#ended !== undefined) return;
    this.#lastId += 1;
    this.#pending.set(this.#lastId, UNAWAITED);
    try {
      this.channel.send(encodeMessage(request(this.#lastId)));
    } catch (error) {
      if (hasCode(error, "PEER_GONE")) return;
      this.channel.close();
      this.#end(error);
    }
  }

  #end(reason: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = this.#errorOfEnd(reason);
    for (const pending of this.#pending.values()) pending.fail(this.#ended);
    this.#pending.clear();
    for (const listener of this.#onEnd) listener(this.#ended);
  }

  #errorOfEnd(cause: unknown): CudaIpcError {
    const connection = `The connection to the hub at ${this.socketPath}`;
    if (this.#closing) return new CudaIpcError("CLOSED", `${connection} was closed`);
    if (cause instanceof CudaIpcError && cause.code !== "SYSTEM_ERROR") return cause;
    return new CudaIpcError("HUB_GONE", `${connection} has ended`, { cause });
  }
}
