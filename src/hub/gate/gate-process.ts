/** One gate of a hub (gate-main.ts): a child process that carries out one order after another. */
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { releaseAll } from "../../base/scope.js";
import { POLLIN, pollFd } from "../../os/file-calls.js";
import type { Packet, SeqpacketSocket } from "../../os/seqpacket.js";
import { HubChild } from "../child/hub-child.js";
import { decodeGateLine, type GateLine, gateOrders, refusalIn } from "./gate-messages.js";

/** Longer than any start of a process. A gate that does not block answers sooner. */
const SILENCE_MAX_MS = 3_000;

export interface GateOrder {
  readonly op: keyof typeof gateOrders;
  readonly socket: SeqpacketSocket;
  /** The receiver owns the descriptors. */
  onPacket(packet: Packet): void;
  /** Called once, with the number of descriptors that the gate keeps, or with the failure. */
  onDone(kept: number, failure?: CudaIpcError): void;
  /** The gate failed before it began this order. Give the order to another gate. */
  retry(): void;
}

export interface GateEvents {
  onReady(): void;
  /** It takes no more orders: it has ended, or it blocks. */
  onFailure(reason: CudaIpcError): void;
  /** The process has ended, and what it kept is closed. */
  onExit(): void;
}

export class GateProcess {
  readonly #events: GateEvents;
  readonly #child: HubChild;
  readonly #orders: GateOrder[] = [];
  /** The last line, if it announced the next packet. */
  #announced: GateLine | undefined;
  #silence: NodeJS.Timeout | undefined;
  #retiring = false;

  /**
   * Takes orders at once.
   * @throws TOO_MANY_FDS, and what Node throws if it cannot start a process
   */
  constructor(events: GateEvents) {
    this.#events = events;
    this.#child = new HubChild("hub/gate/gate-main.js", {
      onReady: () => {
        this.#expectLine();
        events.onReady();
      },
      onPacket: (packet) => this.#onPacket(packet),
      onFailure: (reason) => this.#fail(reason),
      onExit: () => events.onExit(),
    });
  }

  give(order: GateOrder): void {
    this.#orders.push(order);
    if (this.#orders.length === 1) this.#expectLine();
    try {
      this.#child.send(Uint8Array.of(gateOrders[order.op]), [order.socket.fd]);
    } catch (error) {
      // It died at once. Its end gives the order to another gate.
      if (!this.ready && (hasCode(error, "PEER_GONE") || hasCode(error, "CLOSED"))) return;
      this.#orders.pop();
      order.onDone(0, failureOf(error));
    }
  }

  /** False until it has said so: a gate that dies before has begun no order. */
  get ready(): boolean {
    return this.#child.ready;
  }

  /** Takes no more orders. The process ends after the last one. */
  retire(): void {
    this.#retiring = true;
    if (this.#orders.length === 0) this.#close();
  }

  /** Hangs up on it, even in the middle of an order. */
  close(): void {
    this.#retiring = true;
    const orders = this.#orders.splice(0);
    const failure = new CudaIpcError("CLOSED", "Cannot receive descriptors: the hub ends");
    releaseAll([() => this.#close(), ...orders.map((order) => () => order.onDone(0, failure))]);
  }

  #onPacket(packet: Packet): void {
    this.#expectLine();
    const [order] = this.#orders;
    const announced = this.#announced;
    this.#announced = undefined;
    if (announced !== undefined) {
      const damage = announced.kind === "refused" ? refusalIn(announced) : packet.damage;
      order?.onPacket({ ...packet, damage });
      if ("kept" in announced) this.#finish(announced.kept ?? 0);
      return;
    }
    const line = decodeGateLine(packet.bytes);
    if (line.kind === "done") this.#finish(line.kept);
    else this.#announced = line;
  }

  #finish(kept: number): void {
    const order = this.#orders.shift();
    this.#expectLine();
    order?.onDone(kept);
    if (this.#retiring && this.#orders.length === 0) this.#close();
  }

  #expectLine(): void {
    clearTimeout(this.#silence);
    if (this.#orders.length === 0 || !this.#child.open) return;
    this.#silence = setTimeout(() => this.#onSilence(), SILENCE_MAX_MS);
    this.#silence.unref();
  }

  /** A hub that did not run itself for a while has not read the answer yet. */
  #onSilence(): void {
    if (pollFd(this.#child.socket.fd, POLLIN, 0)) this.#expectLine();
    else this.#fail(new Error("it says nothing"));
  }

  #fail(reason: unknown): void {
    const orders = this.#orders.splice(0);
    const begun = this.ready ? orders.shift() : undefined;
    const isExpected = this.#retiring;
    this.#retiring = true;
    this.#close();
    if (isExpected && begun === undefined && orders.length === 0) return;
    // It must not go on with orders that another gate gets.
    this.#child.kill();
    const failure = failureOf(reason);
    if (!isExpected) this.#events.onFailure(failure);
    begun?.onDone(0, failure);
    for (const order of orders) order.retry();
  }

  #close(): void {
    clearTimeout(this.#silence);
    this.#child.close();
  }
}

function failureOf(reason: unknown): CudaIpcError {
  if (reason instanceof CudaIpcError) return reason;
  const found = reason instanceof Error ? reason.message : "it has ended";
  return new CudaIpcError(
    "HUB_UNAVAILABLE",
    `Cannot receive descriptors by the hub's gate: ${found}`,
  );
}
