/**
 * A client's link to its hub, over any number of connections. If one breaks, the next continues the
 * session, registers what the client still holds, and retries pending requests.
 *
 *   ready --connection ends--> away --the next hub answered--> ready
 *     |                          |
 *     +---- farewell, close -----+---- the time is up, close ----> ended
 */
import { Deadline } from "../../base/deadline.js";
import { again, CudaIpcError, hasCode, withCallers } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import { Listeners } from "../../base/listeners.js";
import { releaseAll } from "../../base/scope.js";
import { closeFds } from "../../os/foreign-fd.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { Request, ResultOf } from "../../wire/messages.js";
import { points } from "../client-diagnostics.js";
import { type HeldLease, HeldLeases } from "./held-leases.js";
import type { Answer, Fields, HubConnection } from "./hub-connection.js";
import { type HubTarget, tryConnect } from "./reach-hub.js";
import { asReason, isFinal, Reconnection } from "./reconnection.js";
import { Waiters } from "./waiters.js";

/** The outcome of a reconnect. */
export interface Reconnected {
  /** True if everything that is held here is as before; false if the hub lost some of it. */
  readonly resumed: boolean;
}

export interface HubLinkOptions {
  /** Whether to look for the next hub, and how long. */
  readonly reconnect: boolean;
  readonly reconnectTimeoutMs: number;
}

export interface AskOptions {
  /** Sent along. They stay the caller's, who keeps them open until the answer. */
  readonly fds?: readonly OwnedFd[];
  /** Called before each attempt to send the request. If it throws, the request fails with that. */
  readonly check?: () => void;
}

type Op = Request["op"];

/** Requests that are not idempotent, or concern one connection alone: they are not retried. */
const NOT_REPEATED: ReadonlySet<Op> = new Set(["stop", "restart"]);
/** Requests whose answer holds a lease, which must go back if the caller has given up. */
const GAINS: ReadonlySet<Op> = new Set(["create", "open"]);
/** A connection that lived this long counts as useful, even if nothing was asked on it. */
const LIVED_MS = 1000;

export class HubLink {
  readonly socketPath: string;
  readonly #target: HubTarget;
  readonly #options: HubLinkOptions;
  readonly #leases = new HeldLeases();
  readonly #reconnection: Reconnection;
  readonly #waiters = new Waiters<HubConnection>();
  readonly #onEnd = new Listeners<CudaIpcError>();
  readonly #onReconnect = new Listeners<Reconnected>();
  #connection: HubConnection;
  #ready = true;
  #readySinceMs = 0;
  #answered = false;
  #ended: CudaIpcError | undefined;
  #session: number;
  /** True if the hub may know of something that this client held. */
  #owes = false;
  #referenced = true;
  #returning: Promise<void> = Promise.resolve();

  constructor(connection: HubConnection, target: HubTarget, options: HubLinkOptions) {
    this.socketPath = target.socketPath;
    this.#target = target;
    this.#options = options;
    this.#reconnection = new Reconnection(target, options.reconnectTimeoutMs);
    this.#connection = connection;
    this.#session = connection.session;
    this.#begin(connection);
  }

  get session(): number {
    return this.#session;
  }

  /** The user of the hub's process. */
  get hubUid(): number {
    return this.#connection.hubUid;
  }

  /** Calls the listener once if the link ends, or has ended, other than by `close`. */
  onEnd(listener: (reason: CudaIpcError) => void): () => void {
    if (this.#ended !== undefined) queueMicrotask(() => this.#tellEnd());
    return this.#onEnd.add(listener);
  }

  /** Calls the listener after each reconnection. */
  onReconnect(listener: (event: Reconnected) => void): () => void {
    return this.#onReconnect.add(listener);
  }

  /**
   * Sends a request, over as many connections as it takes, and waits for its answer.
   */
  async ask<O extends Op>(
    op: O,
    fields: Fields<O>,
    deadline: Deadline,
    options: AskOptions = {},
  ): Promise<Answer<O>> {
    for (let sent = 0; ; sent += 1) {
      let connection: HubConnection | undefined;
      try {
        connection = await this.#whenReady(deadline);
        options.check?.();
        if (GAINS.has(op)) this.#owes = true;
        const answer = await connection.ask(op, fields, deadline, options.fds);
        this.#answered = true;
        return answer;
      } catch (error) {
        if (error !== connection?.endReason) {
          // The first attempt may have been carried out, and only its answer was lost.
          const isGone = hasCode(error, "NOT_FOUND") || hasCode(error, "STALE_HANDLE");
          if (sent > 0 && op === "remove" && isGone) return { result: {} as ResultOf<O>, fds: [] };
          throw withCallers(error);
        }
        if (this.#ended !== undefined || NOT_REPEATED.has(op))
          throw withCallers(again(this.#ended ?? error));
      }
    }
  }

  /** As `ask`, for requests that are answered without descriptors. */
  async request<O extends Op>(
    op: O,
    fields: Fields<O>,
    deadline: Deadline,
    options: AskOptions = {},
  ): Promise<ResultOf<O>> {
    const answer = await this.ask(op, fields, deadline, options);
    closeFds(answer.fds);
    return answer.result;
  }

  /**
   * Keeps this lease over all connections until it is released. Takes over its memory, unless it
   * throws. Call it right after the answer: the hub takes back every lease that the next connection
   * does not name.
   * @throws INVALID_MESSAGE; DISCONNECTED if the hub ended the session right after the answer
   */
  hold(held: HeldLease): void {
    if (hasCode(this.#ended, "DISCONNECTED")) throw this.#ended;
    this.#leases.add(held);
  }

  /** True if the hub still has this lease for this client. */
  holds(lease: number): boolean {
    return this.#leases.has(lease);
  }

  /**
   * Gives back a lease, in order with all other requests; nobody waits for the answer. Without a
   * connection nothing is sent: the hub takes back what the next connection does not name.
   */
  release(lease: number): void {
    const held = this.#leases.take(lease);
    if (held !== undefined)
      releaseAll([() => this.#connection.release(lease), () => held.memory.close()]);
  }

  setReferenced(referenced: boolean): void {
    this.#referenced = referenced;
    this.#connection.setReferenced(referenced);
    this.#reconnection.setReferenced(referenced);
  }

  /**
   * Says goodbye, so the hub frees everything at once. Does not wait long for a hub that is gone or
   * silent, which then keeps the leases of this client until the process ends.
   */
  async close({ goodbye = true }: { readonly goodbye?: boolean } = {}): Promise<void> {
    if (this.#ended !== undefined) return;
    const isReady = this.#ready;
    this.#onEnd.clear();
    const closed = `The connection to the hub at ${this.socketPath} was closed`;
    this.#end(new CudaIpcError("CLOSED", closed));
    try {
      if (goodbye && isReady && (await this.#leave())) return;
      // Also if nothing is owed: the connection may be in the middle of registering leases.
      this.#connection.abandon();
      if (goodbye && this.#owes && this.#options.reconnect)
        await this.sayGoodbye(defaults.goodbyeTimeoutMs);
    } finally {
      this.#reconnection.abandon();
    }
  }

  #whenReady(deadline: Deadline): Promise<HubConnection> | HubConnection {
    if (this.#ended !== undefined) throw again(this.#ended);
    if (this.#ready) return this.#connection;
    deadline.check();
    return this.#waiters.wait(deadline).catch((error: unknown) => {
      if (!hasCode(error, "TIMEOUT")) throw error === this.#ended ? again(error) : error;
      const found = `the connection to the hub at ${this.socketPath} ended, and no other was made`;
      throw deadline.timedOut(`${found}: ${this.#reconnection.found}`);
    });
  }

  #begin(connection: HubConnection): void {
    this.#ready = true;
    this.#answered = false;
    this.#readySinceMs = performance.now();
    connection.onEnd((reason) => this.#onConnectionEnd(reason));
    // The connection may have ended right after its greeting, before `onEnd` had a listener.
    if (connection.endReason !== undefined) this.#onConnectionEnd(connection.endReason);
  }

  #onConnectionEnd(reason: CudaIpcError): void {
    if (this.#ended !== undefined) return;
    this.#ready = false;
    points.disconnect.publish({ socketPath: this.socketPath, reason });
    if (!this.#options.reconnect || isFinal(reason)) {
      this.#end(reason);
      return;
    }
    if (this.#answered || performance.now() - this.#readySinceMs > LIVED_MS)
      this.#reconnection.succeeded();
    this.#returning = this.#comeBack();
  }

  async #comeBack(): Promise<void> {
    try {
      for (;;) {
        const connection = await this.#reconnection.next(this.#session);
        if (connection === undefined) return;
        if (await this.#resume(connection)) return;
      }
    } catch (error) {
      this.#end(asReason(error, this.socketPath));
    }
  }

  /** Returns false if this connection has ended, too. */
  async #resume(connection: HubConnection): Promise<boolean> {
    if (this.#ended !== undefined) {
      connection.abandon();
      return true;
    }
    this.#connection = connection;
    this.#session = connection.session;
    connection.setReferenced(this.#referenced);
    let lost = connection.resumed ? 0 : this.#leases.size;
    try {
      if (connection.resumed) lost = await this.#tellWhatIsHeld(connection);
      else this.#leases.clear();
    } catch (error) {
      connection.abandon();
      if (isFinal(error)) throw error;
      return this.#ended !== undefined;
    }
    if (connection.endReason !== undefined) return this.#ended !== undefined;
    this.#begin(connection);
    this.#waiters.resolve(connection);
    const resumed = lost === 0;
    points.reconnect.publish({ socketPath: this.socketPath, resumed });
    // Each listener runs in a turn of its own, so that one that throws does not affect the others.
    for (const listener of this.#onReconnect) queueMicrotask(() => listener({ resumed }));
    return true;
  }

  /** Returns the number of leases that the hub does not know. */
  async #tellWhatIsHeld(connection: HubConnection): Promise<number> {
    const deadline = new Deadline("tell the hub what is held", {}, Number.POSITIVE_INFINITY);
    const lost = await this.#leases.restore(connection, deadline);
    await connection.request("restored", {}, deadline);
    return lost;
  }

  /** Returns false if the connection ended before the hub had answered. */
  async #leave(): Promise<boolean> {
    try {
      const deadline = new Deadline("leave the hub", {}, defaults.goodbyeTimeoutMs);
      return await this.#connection.close(deadline);
    } catch (error) {
      // Not a failure: the goodbye is in the hub's socket, and is read once the hub continues.
      if (hasCode(error, "TIMEOUT")) return true;
      if (hasCode(error, "LIMIT_EXCEEDED")) return false; // Too many messages wait for the hub.
      throw error;
    }
  }

  /** Says goodbye without a connection: on a new one, after the current attempt is over. */
  async sayGoodbye(timeoutMs: number): Promise<void> {
    const deadline = new Deadline("say goodbye to the hub", { timeoutMs }, timeoutMs);
    try {
      await deadline.race(this.#returning, () => {});
      const connection = await tryConnect(this.#target, { deadline, session: this.#session });
      await connection?.close(deadline);
    } catch {
      // Without contact the hub frees the leases when this process ends.
    }
  }

  #end(reason: CudaIpcError): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason;
    this.#ready = false;
    this.#reconnection.stop();
    this.#waiters.reject(reason);
    this.#leases.clear();
    if (reason.code !== "CLOSED") points.hubLost.publish({ socketPath: this.socketPath, reason });
    this.#tellEnd();
  }

  #tellEnd(): void {
    if (this.#ended === undefined || this.#ended.code === "CLOSED") return;
    this.#onEnd.call(this.#ended);
    this.#onEnd.clear();
  }
}
