/**
 * One connection to the hub: requests out, each with a number; replies in, each to the request of its number.
 * What a caller has given up on is still cleaned up when its reply comes.
 */
import { Deadline } from "../base/deadline.js";
import { type ErrorCode, isErrorCode } from "../base/error-codes.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { releaseAll } from "../base/scope.js";
import { packageVersion } from "../base/version.js";
import { closeForeign } from "../os/foreign-fd.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { PacketChannel } from "../os/packet-channel.js";
import { type Packet, SeqpacketSocket } from "../os/seqpacket.js";
import { ownThread } from "../os/thread-identity.js";
import { decodeReply, decodeResult, encodeMessage } from "../wire/codec.js";
import { PROTOCOL_VERSION, type Request, type RequestOf, type ResultOf } from "../wire/messages.js";
import { hubSilence } from "./hub-silence.js";
import { checkHubUser } from "./hub-trust.js";

export type Fields<Op extends Request["op"]> = Omit<RequestOf<Op>, "v" | "id" | "op">;

export interface Answer<Op extends Request["op"]> {
  readonly result: ResultOf<Op>;
  /** The receiver's from here on. */
  readonly fds: readonly OwnedFd[];
}

interface Pending {
  /** Takes over the packet's descriptors. */
  settle(packet: Packet, result: unknown): void;
  fail(error: unknown): void;
}

/** What a request that is posted does with its answer: nothing. */
const UNAWAITED: Pending = { settle: (packet) => closeFds(packet.fds), fail: () => {} };

/** What a hub says that was stopped: it does not want to be started again. */
export class Farewell extends CudaIpcError {
  constructor(message: string) {
    super("HUB_GONE", message);
  }
}

export class HubConnection {
  readonly socketPath: string;
  readonly hubPid: number;
  readonly #channel: PacketChannel;
  readonly #pending = new Map<number, Pending>();
  readonly #onEnd: Set<(reason: CudaIpcError) => void> = new Set();
  #greeting: ResultOf<"hello"> | undefined;
  #lastId = 0;
  #ended: CudaIpcError | undefined;
  #closing = false;

  private constructor(socketPath: string, socket: SeqpacketSocket, hubPid: number) {
    this.socketPath = socketPath;
    this.hubPid = hubPid;
    const handler = {
      onPacket: (packet: Packet) => this.#onPacket(packet),
      onEnd: (reason: unknown) => this.#end(reason),
    };
    this.#channel = new PacketChannel(socket, handler, { queueMessagesMax: limits.clientQueueMessagesMax });
  }

  /**
   * Connects to a hub of a trusted user and greets it; with `session`, to go on with what this process held by an earlier connection.
   * @throws SystemError `ENOENT` or `ECONNREFUSED` where none listens; UNTRUSTED_PEER, PROTOCOL_MISMATCH, Farewell
   */
  static async open(
    socketPath: string,
    program: string,
    deadline: Deadline,
    trusted: ReadonlySet<number>,
    session?: number,
    referenced = true,
  ): Promise<HubConnection> {
    const socket = SeqpacketSocket.connect(socketPath);
    let connection: HubConnection;
    try {
      const peer = socket.peerCredentials();
      checkHubUser(socketPath, peer.uid, trusted);
      connection = new HubConnection(socketPath, socket, peer.pid);
    } catch (error) {
      socket.close();
      throw error;
    }
    try {
      if (!referenced) connection.setReferenced(false);
      const client = { version: packageVersion(), program };
      const thread = ownThread();
      const resume = session === undefined ? undefined : { session };
      const fields = { client, ...(resume && { resume }), ...(thread && { thread }) };
      connection.#greeting = await connection.request("hello", fields, deadline);
      return connection;
    } catch (error) {
      connection.abandon();
      throw error;
    }
  }

  /** What a later connection of this process can go on with. */
  get session(): number {
    return this.#greeting?.session ?? 0;
  }

  /** Whether it goes on with the session that was asked for. */
  get resumed(): boolean {
    return this.#greeting?.resumed ?? false;
  }

  /** Why it has ended; every request that was under way fails with this very error. */
  get endReason(): CudaIpcError | undefined {
    return this.#ended;
  }

  /** Called once when the connection ends other than by `close`. */
  onEnd(listener: (reason: CudaIpcError) => void): void {
    this.#onEnd.add(listener);
  }

  /** Sends a request and waits for its answer; descriptors to send stay the caller's. */
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
          if (packet.damage === undefined) {
            resolve({ result: decoded, fds: packet.fds });
            return;
          }
          this.#giveBack(decoded);
          reject(packet.damage);
        } catch (error) {
          closeFds(packet.fds);
          reject(error);
        }
      };
      this.#pending.set(id, { settle, fail: reject });
    });
    try {
      this.#channel.send(encodeMessage({ v: PROTOCOL_VERSION, id, op, ...fields } as unknown as Request), fds);
    } catch (error) {
      // WHY not thrown: the end is about to be told, to this request as to the others, after what the hub had still said.
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
      // WHY: the error was made when a packet came, and its stack shows the socket; here it shows who asked.
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

  /** Gives back a lease, in order with all other requests; nobody waits for the answer. After the end there is nothing to give back. */
  release(lease: number): void {
    this.#post((id) => ({ v: PROTOCOL_VERSION, id, op: "release", lease }));
  }

  setReferenced(referenced: boolean): void {
    this.#channel.setReferenced(referenced);
  }

  /** Says goodbye, so that the hub gives everything back at once, and hangs up. False where the connection ended before the hub had answered. */
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

  /** Hangs up without a word; the hub keeps what this connection holds until the process ends. */
  abandon(): void {
    this.#onEnd.clear();
    this.#closing = true;
    this.#channel.close();
    this.#end(undefined);
  }

  #onPacket(packet: Packet): void {
    // WHY only this one ends the connection: where descriptors were lost the message is whole, and concerns its request alone.
    if (hasCode(packet.damage, "MESSAGE_TOO_LARGE")) throw packet.damage;
    let reply: ReturnType<typeof decodeReply>;
    try {
      reply = decodeReply(packet.bytes);
    } catch (error) {
      closeFds(packet.fds);
      throw error;
    }
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if (reply.ok && pending !== undefined) {
      pending.settle(packet, reply.result);
      return;
    }
    closeFds(packet.fds);
    if (reply.ok)
      throw new CudaIpcError("INVALID_MESSAGE", `The hub answered request ${reply.id}, which was never sent`);
    const { code, message } = reply.error;
    if (reply.id === 0 && code === "HUB_GONE") throw new Farewell(message);
    const error = new CudaIpcError(codeOf(code), message);
    if (pending === undefined) throw error;
    pending.fail(error);
  }

  // WHY still awaited: a lease that comes too late must go back, or the hub keeps it for us.
  #giveBackLate<Op extends Request["op"]>(answer: Promise<Answer<Op>>): void {
    answer.then(
      ({ result, fds }) => {
        closeFds(fds);
        this.#giveBack(result);
      },
      () => {
        // Refused or cut off: there is nothing to give back, and the caller was told already.
      },
    );
  }

  /**
   * Adds to a TIMEOUT why the hub has not answered. For an open, asks the hub whom it waits for.
   */
  async #givenUp(op: Request["op"], id: number, deadline: Deadline, error: unknown): Promise<unknown> {
    const isLate = hasCode(error, "TIMEOUT");
    if (!isLate && op === "open")
      this.#post((cancel) => ({ v: PROTOCOL_VERSION, id: cancel, op: "cancel", request: id }));
    if (!isLate) return error;
    if (op !== "open" || this.#ended !== undefined) return deadline.timedOut(hubSilence(this.hubPid));
    const explanation = new Deadline(`ask why request ${id} waits`, {}, defaults.explanationMs);
    try {
      const { found } = await this.request("cancel", { request: id, explain: true }, explanation);
      return deadline.timedOut(found);
    } catch (failure) {
      return deadline.timedOut(hasCode(failure, "TIMEOUT") ? hubSilence(this.hubPid) : undefined);
    }
  }

  #giveBack(result: object): void {
    if ("lease" in result) this.release(Number(result.lease));
  }

  /** Sends a request whose answer concerns nobody. A connection that cannot send has ended, which its other users are told. */
  #post(request: (id: number) => Request): void {
    if (this.#ended !== undefined) return;
    this.#lastId += 1;
    this.#pending.set(this.#lastId, UNAWAITED);
    try {
      this.#channel.send(encodeMessage(request(this.#lastId)));
    } catch (error) {
      if (hasCode(error, "PEER_GONE")) return;
      this.#channel.close();
      this.#end(error);
    }
  }

  #endedBy(reason: unknown): CudaIpcError {
    return reason instanceof CudaIpcError && reason.code !== "SYSTEM_ERROR" ? reason : this.#gone(reason);
  }

  #closed(): CudaIpcError {
    return new CudaIpcError("CLOSED", `The connection to the hub at ${this.socketPath} was closed`);
  }

  #gone(cause: unknown): CudaIpcError {
    return new CudaIpcError("HUB_GONE", `The connection to the hub at ${this.socketPath} has ended`, { cause });
  }

  #end(reason: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = this.#closing ? this.#closed() : this.#endedBy(reason);
    for (const pending of this.#pending.values()) pending.fail(this.#ended);
    this.#pending.clear();
    for (const listener of this.#onEnd) listener(this.#ended);
  }
}

function codeOf(code: string): ErrorCode {
  return isErrorCode(code) ? code : "SYSTEM_ERROR";
}

export function closeFds(fds: readonly OwnedFd[]): void {
  releaseAll(fds.map((fd) => () => (fd.closed ? undefined : closeForeign(fd))));
}
