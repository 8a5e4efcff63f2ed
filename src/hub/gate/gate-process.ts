/** One gate of a hub (gate-main.ts): a child process that carries out one order after another. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";
import { childEnvironment } from "../../base/child-environment.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { lastError } from "../../base/last-error.js";
import { ownProgram } from "../../base/own-package.js";
import { acquireIn, releaseAll, type Scope } from "../../base/scope.js";
import { POLLIN, pollFd } from "../../os/file-calls.js";
import { PacketChannel } from "../../os/packet-channel.js";
import { type Packet, SeqpacketSocket } from "../../os/seqpacket.js";
import { decodeGateLine, type GateLine, gateOrders, refusalIn } from "./gate-messages.js";

/** Longer than any start of a process. A gate that does not block answers sooner. */
const SILENCE_MAX_MS = 3_000;
/** How much is kept of what it writes about its death. */
const WORDS_MAX = 4096;

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
  readonly #child: ChildProcess;
  readonly #channel: PacketChannel;
  readonly #orders: GateOrder[] = [];
  /** The last line, if it announced the next packet. */
  #announced: GateLine | undefined;
  #silence: NodeJS.Timeout | undefined;
  #retiring = false;
  #ready = false;
  #words = "";

  /**
   * Takes orders at once.
   * @throws TOO_MANY_FDS, and what Node throws if it cannot start a process
   */
  constructor(events: GateEvents) {
    this.#events = events;
    const { child, own } = acquireIn(start);
    this.#child = child;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#words = (this.#words + text).slice(-WORDS_MAX);
    });
    child.once("exit", () => {
      if (this.#ready) this.#fail(undefined);
      events.onExit();
    });
    child.once("error", (error) => {
      this.#fail(error);
      events.onExit();
    });
    // After its last words. A gate that was never ready keeps nothing, so it cannot block here.
    child.once("close", () => this.#fail(new Error(this.#diedAtOnce())));
    this.#channel = new PacketChannel(own, {
      onPacket: (packet) => this.#onPacket(packet),
      onEnd: (reason) => {
        if (this.#ready || reason !== undefined) this.#fail(reason);
      },
    });
    // A hub that has ended does not wait for it.
    this.#channel.setReferenced(false);
  }

  give(order: GateOrder): void {
    this.#orders.push(order);
    if (this.#orders.length === 1) this.#expectLine();
    try {
      this.#channel.send(Uint8Array.of(gateOrders[order.op]), [order.socket.fd]);
    } catch (error) {
      // It died at once. Its end gives the order to another gate.
      if (!this.#ready && (hasCode(error, "PEER_GONE") || hasCode(error, "CLOSED"))) return;
      this.#orders.pop();
      order.onDone(0, failureOf(error));
    }
  }

  /** False until it has said so: a gate that dies before has begun no order. */
  get ready(): boolean {
    return this.#ready;
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
    if (line.kind === "ready") {
      this.#ready = true;
      this.#events.onReady();
    } else if (line.kind === "done") this.#finish(line.kept);
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
    if (this.#orders.length === 0 || !this.#channel.open) return;
    this.#silence = setTimeout(() => this.#onSilence(), SILENCE_MAX_MS);
    this.#silence.unref();
  }

  /** A hub that did not run itself for a while has not read the answer yet. */
  #onSilence(): void {
    if (pollFd(this.#channel.socket.fd, POLLIN, 0)) this.#expectLine();
    else this.#fail(new Error("it says nothing"));
  }

  #fail(reason: unknown): void {
    const orders = this.#orders.splice(0);
    const begun = this.#ready ? orders.shift() : undefined;
    const isExpected = this.#retiring;
    this.#retiring = true;
    this.#close();
    if (isExpected && begun === undefined && orders.length === 0) return;
    // It must not go on with orders that another gate gets.
    this.#child.kill("SIGKILL");
    const failure = failureOf(reason);
    if (!isExpected) this.#events.onFailure(failure);
    begun?.onDone(0, failure);
    for (const order of orders) order.retry();
  }

  #diedAtOnce(): string {
    const words = lastError(this.#words);
    return words === "" ? "it ended at once" : `it ended at once: ${words}`;
  }

  #close(): void {
    clearTimeout(this.#silence);
    releaseAll([() => this.#channel.close(), () => this.#child.stderr?.destroy()]);
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

function start(scope: Scope): { readonly child: ChildProcess; readonly own: SeqpacketSocket } {
  const [own, its] = SeqpacketSocket.pair();
  // The process ends too: it notices that the hub's end is closed.
  scope.own(own, () => own.close());
  try {
    return { own, child: startProcess(its) };
  } finally {
    its.close();
  }
}

function startProcess(socket: SeqpacketSocket): ChildProcess {
  // Nothing of others: what it inherits stays open as long as it blocks.
  const stdio = ["ignore", "ignore", "pipe", socket.fd.number] as const;
  const child = spawn(
    process.execPath,
    [ownProgram("hub/gate/gate-main.js") ?? "hub/gate/gate-main.js"],
    {
      cwd: "/",
      env: childEnvironment(),
      stdio: [...stdio],
    },
  );
  child.unref();
  // The cast: it is a socket, and the types say less.
  (child.stderr as Socket | null)?.unref();
  return child;
}
