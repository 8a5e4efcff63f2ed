/** One gate of a hub (gate-main.ts): a child process that carries out one order after another. */
import { type ChildProcess, spawn } from "node:child_process";
import { childEnvironment } from "../../base/child-environment.js";
import { CudaIpcError } from "../../base/errors.js";
import { ownProgram } from "../../base/own-package.js";
import { acquireIn, releaseAll, type Scope } from "../../base/scope.js";
import { POLLIN, pollFd } from "../../os/file-calls.js";
import { PacketChannel } from "../../os/packet-channel.js";
import { type Packet, SeqpacketSocket } from "../../os/seqpacket.js";
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
  readonly #child: ChildProcess;
  readonly #channel: PacketChannel;
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
    const { child, own } = acquireIn(start);
    this.#child = child;
    const onEnd = (error?: Error) => {
      this.#fail(error);
      events.onExit();
    };
    this.#child.once("exit", () => onEnd()).once("error", onEnd);
    this.#channel = new PacketChannel(own, {
      onPacket: (packet) => this.#onPacket(packet),
      onEnd: (reason) => this.#fail(reason),
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
      this.#orders.pop();
      order.onDone(0, failureOf(error));
    }
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
    if (line.kind === "ready") this.#events.onReady();
    else if (line.kind === "done") this.#finish(line.kept);
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
    const [begun, ...untouched] = this.#orders.splice(0);
    const isExpected = this.#retiring;
    this.#retiring = true;
    this.#close();
    if (isExpected && begun === undefined) return;
    // It must not go on with orders that another gate gets.
    this.#child.kill("SIGKILL");
    const failure = failureOf(reason);
    if (!isExpected) this.#events.onFailure(failure);
    begun?.onDone(0, failure);
    for (const order of untouched) order.retry();
  }

  #close(): void {
    clearTimeout(this.#silence);
    this.#channel.close();
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
  // Nothing but the socket: what it inherits stays open as long as it blocks.
  const stdio = ["ignore", "ignore", "ignore", socket.fd.number] as const;
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
  return child;
}
