/** One gate of a hub (gate-main.ts): a child process that receives messages with descriptors, one order after another. */
import { type ChildProcess, spawn } from "node:child_process";
import { CudaIpcError } from "../base/errors.js";
import { ownProgram } from "../base/own-program.js";
import { acquireIn, releaseAll, type Scope } from "../base/scope.js";
import { PacketChannel } from "../os/packet-channel.js";
import { type Packet, SeqpacketSocket } from "../os/seqpacket.js";
import { decodeGateLine, type GateLine, gateOrders, refusalIn } from "./gate-messages.js";

/** Longer than any start of a process, and no gate that is not held up says nothing for so long. */
const SILENCE_MAX_MS = 3_000;

export interface GateOrder {
  readonly op: keyof typeof gateOrders;
  /** Stays the caller's. */
  readonly socket: SeqpacketSocket;
  /** The descriptors are the receiver's. */
  onPacket(packet: Packet): void;
  /** Called once, with the number of descriptors that the gate keeps, or with why the order was not carried out. */
  onDone(kept: number, failure?: CudaIpcError): void;
  /** The gate has failed before it came to this order: for another gate. */
  retry(): void;
}

export interface GateEvents {
  onReady(): void;
  /** It takes no orders any more: it is gone, or held up. */
  onFailure(reason: CudaIpcError): void;
  /** The process has ended, with all that it kept. */
  onExit(): void;
}

export class GateProcess {
  readonly #events: GateEvents;
  readonly #child: ChildProcess;
  readonly #channel: PacketChannel;
  readonly #orders: GateOrder[] = [];
  /** What the last line says of the packet that follows it. */
  #announced: GateLine | undefined;
  #silence: NodeJS.Timeout | undefined;
  #retiring = false;

  /** Orders may be given at once. @throws TOO_MANY_FDS, and what Node throws if it cannot start a process */
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
    // WHY: a hub that has ended does not wait for it.
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

  /** Takes no further orders, and lets the process end once it has carried out the last. */
  retire(): void {
    this.#retiring = true;
    if (this.#orders.length === 0) this.#close();
  }

  /** Hangs up on it, whatever it has to do. */
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
    this.#silence = setTimeout(() => this.#fail(new Error("it says nothing")), SILENCE_MAX_MS);
    this.#silence.unref();
  }

  #fail(reason: unknown): void {
    const [begun, ...untouched] = this.#orders.splice(0);
    const isExpected = this.#retiring;
    this.#retiring = true;
    this.#close();
    if (isExpected && begun === undefined) return;
    // WHY: it must not go on with what another gate is given.
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
  return new CudaIpcError("HUB_UNAVAILABLE", `Cannot receive descriptors by the hub's gate: ${found}`);
}

/** The process, and the hub's end of the socket to it. */
function start(scope: Scope): { readonly child: ChildProcess; readonly own: SeqpacketSocket } {
  const [own, its] = SeqpacketSocket.pair();
  // WHY the process, too, ends with it: it hears when the hub's end is closed.
  scope.own(own, () => own.close());
  try {
    return { own, child: startProcess(its) };
  } finally {
    its.close();
  }
}

function startProcess(socket: SeqpacketSocket): ChildProcess {
  const env = { ...process.env };
  // WHY: options meant for this process (a debugger's port, preloaded modules) are not the gate's.
  delete env.NODE_OPTIONS;
  // WHY nothing but the socket: what it inherits stays open for as long as it is held up.
  const stdio = ["ignore", "ignore", "ignore", socket.fd.number] as const;
  const child = spawn(process.execPath, [ownProgram("hub/gate-main.js") ?? "hub/gate-main.js"], {
    cwd: "/",
    env,
    stdio: [...stdio],
  });
  child.unref();
  return child;
}
