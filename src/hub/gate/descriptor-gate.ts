/**
 * Lets descriptors into the hub. A separate process, the gate, receives the messages with
 * descriptors and passes on what can be closed without waiting. What it keeps is closed when it
 * ends, so the hub replaces a gate that keeps something. If the old one blocks while it ends,
 * nobody waits for it.
 */
import { CudaIpcError, messageOf } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import type { Log } from "../../base/log-events.js";
import { GrowingPause } from "../../base/pause.js";
import { releaseAll } from "../../base/scope.js";
import type { Packet, SeqpacketSocket } from "../../os/seqpacket.js";
import { describeError } from "../hub-log.js";
import { type GateOrder, GateProcess } from "./gate-process.js";

/** WHY not at once: starting a gate takes 50 ms of CPU time, and more may come for this one. */
const REPLACE_AFTER_MS = 4_000;
/** A process that does not block ends far sooner. */
const ENDS_WITHIN_MS = 1_000;
const RETRY_AFTER_MS = 1_000;
/**
 * How many orders of one user the gate has at a time. Few, because other users' orders queue behind
 * them.
 */
const ORDERS_PER_USER = 2;
/** So many gates that die at once are replaced at once. Later ones wait ever longer. */
const DEATHS_AT_ONCE_MAX = 3;
const PAUSE_MS_MAX = 60_000;
/** How many gates may get a socket to keep, if one after the other fails. */
const KEEP_TRIES_MAX = 3;

/** Sockets that no gate would take. Kept reachable: collecting one closes it, which may block. */
const unclosed: SeqpacketSocket[] = [];

interface Gate {
  readonly process: GateProcess;
  /** How many descriptors it keeps, by user. */
  readonly kept: Map<number, number>;
  retiredAtMs?: number;
}

/** The orders of one user: how many the gate has, and those that wait. */
interface UserOrders {
  underWay: number;
  readonly waiting: GateOrder[];
}

export interface GateSink {
  /** A message, complete or refused (`damage`). The receiver owns the descriptors. */
  onPacket(packet: Packet): void;
  /** The gate sends no more. Has a failure if something was lost. */
  onDone(failure: CudaIpcError | undefined): void;
}

/** The gate as the connections of one user see it. */
export interface UserGate {
  /**
   * Receives the next messages with descriptors. The socket stays the caller's, and open until
   * `onDone`.
   */
  receive(socket: SeqpacketSocket, sink: GateSink): void;
  /** Hangs up and closes the socket. A gate closes it if descriptors lie unread in it. */
  closeSocket(socket: SeqpacketSocket): void;
}

export class DescriptorGate {
  readonly #log: Log;
  #active: Gate | undefined;
  #successor: Gate | undefined;
  readonly #ending = new Set<Gate>();
  readonly #users = new Map<number, UserOrders>();
  #timer: NodeJS.Timeout | undefined;
  #open = true;
  readonly #pause = new GrowingPause(PAUSE_MS_MAX);
  /** The last gates in a row that died before they were ready. */
  #deaths = 0;
  #nextStartMs = 0;
  #lastDeath = "";
  /** Orders that wait for the next gate. */
  #waiting: (() => void)[] = [];

  constructor(log: Log) {
    this.#log = log;
  }

  /** Starts the first gate, so that nobody has to wait for it later. */
  start(): void {
    try {
      this.#requireActive();
    } catch (error) {
      this.#log("gate-not-started", `cannot start a gate yet: ${describeError(error)}`);
    }
  }

  of(uid: number): UserGate {
    return {
      receive: (socket, sink) => this.#receive(socket, uid, sink),
      closeSocket: (socket) => this.closeSocket(socket, uid),
    };
  }

  #receive(socket: SeqpacketSocket, uid: number, sink: GateSink): void {
    try {
      this.check(uid);
    } catch (error) {
      sink.onDone(error as CudaIpcError);
      return;
    }
    const order: GateOrder = {
      op: "receive",
      socket,
      onPacket: (packet) => sink.onPacket(packet),
      onDone: (_kept, failure) => sink.onDone(failure),
      retry: () => this.#give(uid, order),
    };
    this.#give(uid, order);
  }

  /** See `UserGate.closeSocket`. */
  closeSocket(socket: SeqpacketSocket, uid: number): void {
    if (this.#hangUp(socket)) {
      socket.close();
      return;
    }
    let triesLeft = KEEP_TRIES_MAX;
    const onDone = (_kept: number, failure?: CudaIpcError) => {
      triesLeft -= 1;
      if (failure === undefined) socket.close();
      else if (this.#open && triesLeft > 0) this.#give(uid, order);
      else if (this.#hangUp(socket)) socket.close();
      else unclosed.push(socket);
    };
    const order: GateOrder = {
      op: "keep",
      socket,
      onPacket: () => {},
      onDone,
      retry: () => this.#give(uid, order),
    };
    this.#give(uid, order);
  }

  /** Returns false if descriptors may lie unread in the socket. */
  #hangUp(socket: SeqpacketSocket): boolean {
    try {
      return socket.hangUp();
    } catch (error) {
      this.#log("internal-error", `cannot empty a socket: ${describeError(error)}`);
      return false;
    }
  }

  /** @throws LIMIT_EXCEEDED if too many descriptors of this user block ending gates */
  check(uid: number): void {
    const now = performance.now();
    const heldUp = [...this.#ending].filter(
      ({ retiredAtMs = now }) => now - retiredAtMs > ENDS_WITHIN_MS,
    );
    const count = heldUp.reduce((sum, { kept }) => sum + (kept.get(uid) ?? 0), 0);
    const max = limits.unclosableFdsPerUserMax;
    if (count < max) return;
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot take descriptors: the hub cannot close ${count} that user ${uid} sent, ` +
        `and its limit (unclosableFdsPerUserMax) is ${max}`,
    );
  }

  close(): void {
    this.#open = false;
    clearTimeout(this.#timer);
    const waiting = this.#waiting;
    this.#waiting = [];
    const gates = [this.#active, this.#successor];
    this.#active = undefined;
    this.#successor = undefined;
    releaseAll([...gates.map((gate) => () => gate?.process.close()), ...waiting]);
  }

  /** Gives the order now, or after the earlier orders of this user. */
  #give(uid: number, order: GateOrder): void {
    const user = this.#users.get(uid) ?? { underWay: 0, waiting: [] };
    this.#users.set(uid, user);
    if (user.underWay >= ORDERS_PER_USER) {
      user.waiting.push(order);
      return;
    }
    user.underWay += 1;
    const giveNext = () => {
      user.underWay -= 1;
      const next = user.waiting.shift();
      if (next !== undefined) this.#give(uid, next);
      else if (user.underWay === 0) this.#users.delete(uid);
    };
    this.#giveNow(uid, {
      ...order,
      onDone: (kept, failure) => {
        giveNext();
        order.onDone(kept, failure);
      },
      retry: () => {
        giveNext();
        order.retry();
      },
    });
  }

  #giveNow(uid: number, order: GateOrder): void {
    let gate: Gate;
    if (!this.#open) {
      order.onDone(0, new CudaIpcError("CLOSED", "Cannot receive descriptors: the hub ends"));
      return;
    }
    try {
      gate = this.#requireActive();
    } catch (error) {
      const message = messageOf(error);
      order.onDone(
        0,
        new CudaIpcError(
          "HUB_UNAVAILABLE",
          `Cannot start a process that receives descriptors: ${message}`,
        ),
      );
      return;
    }
    const onDone = (kept: number, failure?: CudaIpcError) => {
      if (kept > 0) this.#keeps(gate, uid, kept);
      order.onDone(kept, failure);
    };
    const isFull = (gate.kept.get(uid) ?? 0) >= limits.gateFdsPerUserMax;
    // With a full table of open files the kernel would close what comes, and wait for it.
    if (order.op === "receive" && isFull) this.#waiting.push(() => this.#giveNow(uid, order));
    else gate.process.give({ ...order, onDone });
  }

  #keeps(gate: Gate, uid: number, count: number): void {
    gate.kept.set(uid, (gate.kept.get(uid) ?? 0) + count);
    if (gate === this.#active)
      this.#timer ??= setTimeout(() => this.#replace(), REPLACE_AFTER_MS).unref();
  }

  #replace(): void {
    this.#timer = undefined;
    if (!this.#open || this.#successor !== undefined || this.#ending.size >= limits.endingGatesMax)
      return;
    try {
      this.#successor = this.#startGate();
    } catch (error) {
      this.#log("gate-not-started", `cannot start another gate: ${describeError(error)}`);
      this.#timer = setTimeout(() => this.#replace(), RETRY_AFTER_MS).unref();
    }
  }

  #requireActive(): Gate {
    if (this.#active === undefined && performance.now() < this.#nextStartMs)
      throw new CudaIpcError("HUB_UNAVAILABLE", this.#lastDeath);
    this.#active ??= this.#startGate();
    return this.#active;
  }

  #startGate(): Gate {
    const process = new GateProcess({
      onReady: () => this.#onReady(gate),
      onFailure: (reason) => this.#onFailure(gate, reason),
      onExit: () => this.#onExit(gate),
    });
    const gate: Gate = { process, kept: new Map() };
    return gate;
  }

  #onReady(gate: Gate): void {
    this.#deaths = 0;
    this.#pause.reset();
    if (gate !== this.#successor) return;
    this.#successor = undefined;
    const earlier = this.#active;
    this.#active = gate;
    if (earlier === undefined) return;
    const counts = [...earlier.kept].map(([uid, count]) => `${count} of user ${uid}`).join(", ");
    this.#log(
      "descriptors-refused",
      `descriptors that no hub takes end with their gate: ${counts}`,
    );
    this.#end(earlier);
    earlier.process.retire();
  }

  #end(gate: Gate): void {
    gate.retiredAtMs = performance.now();
    this.#ending.add(gate);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const give of waiting) give();
  }

  #onFailure(gate: Gate, reason: CudaIpcError): void {
    this.#log("gate-failed", `a gate failed: ${reason.message}`, { code: reason.code });
    if (!gate.process.ready) this.#diedAtOnce(reason);
    if (gate === this.#successor) this.#successor = undefined;
    if (gate === this.#active) this.#active = undefined;
    this.#end(gate);
  }

  /** A broken installation would otherwise start one for each try of each client, forever. */
  #diedAtOnce(reason: CudaIpcError): void {
    this.#deaths += 1;
    this.#lastDeath = reason.message;
    if (this.#deaths < DEATHS_AT_ONCE_MAX) return;
    this.#nextStartMs = performance.now() + this.#pause.nextMs();
  }

  #onExit(gate: Gate): void {
    this.#ending.delete(gate);
    const isKeeping = this.#active !== undefined && this.#active.kept.size > 0;
    if (isKeeping) this.#timer ??= setTimeout(() => this.#replace(), REPLACE_AFTER_MS).unref();
  }
}
