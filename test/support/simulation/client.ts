/** A simulated process that uses the hub. It knows only what its replies told it. */
import assert from "node:assert/strict";
import type { ConnectionId, Peer } from "../../../src/hub/core/ports.js";
import type { ChannelRole } from "../../../src/wire/channel-content.js";
import type { Descriptor } from "../../../src/wire/descriptor.js";
import type { Request, ResultOf } from "../../../src/wire/messages.js";
import { hasWriter } from "./channel-rules.js";
import { identityOf } from "./identity.js";
import type { Held, SentReply } from "./world.js";

export interface SimulatedProcess {
  readonly peer: Peer;
  alive: boolean;
  readonly clients: Client[];
  /** All its connections that the hub may still know. */
  readonly connections: Set<ConnectionId>;
}

export interface HeldLease {
  readonly lease: number;
  readonly object: number;
  readonly kind: "owner" | "read" | "read-write";
  readonly role: ChannelRole | undefined;
  readonly descriptor: Descriptor;
  readonly memory: readonly Held[];
}

export interface Packet {
  readonly message: Request;
  readonly held: readonly Held[];
}

export class Client {
  readonly process: SimulatedProcess;
  /** Undefined while it is not connected. */
  connection: ConnectionId | undefined;
  phase: "out" | "connected" | "restoring" | "in" = "out";
  /** The session that it can resume. */
  session: number | undefined;
  /** Somebody has disconnected the session. After a crash the hub may not know that any more. */
  disconnected = false;
  readonly held = new Map<number, HeldLease>();
  readonly sent = new Map<number, Packet>();
  /** Leases that it still has to restore after it resumed its session. */
  toRestore: number[] = [];
  /** Whether replies to it get lost, because its connection is about to be cut. */
  deaf = false;
  /** The hub takes no messages of it before this time. */
  pausedUntilMs = 0;
  /** Where it goes on asking for changes. */
  changesNext: number | undefined;
  /** It has just heard of all changes, and may wait for the next one. */
  isUpToDate = false;
  #lastRequest = 0;

  constructor(process: SimulatedProcess) {
    this.process = process;
  }

  nextId(): number {
    this.#lastRequest += 1;
    return this.#lastRequest;
  }

  /** Ends its connection. Pending requests get no reply. */
  cutOff(): void {
    this.connection = undefined;
    this.phase = "out";
    this.deaf = false;
    this.sent.clear();
    this.pausedUntilMs = 0;
  }

  /** Forgets the session and its leases: the session ended, or the hub ended for good. */
  forgetAll(): void {
    this.session = undefined;
    this.held.clear();
    this.toRestore = [];
  }

  receive({ reply, fds }: SentReply): void {
    const packet = this.sent.get(reply.id);
    if (packet === undefined || this.deaf) return;
    this.sent.delete(reply.id);
    if (reply.ok) this.#succeeded(packet, reply.result as Record<string, number>, fds);
    else this.#failed(packet.message, reply.error.code);
  }

  #succeeded(
    { message, held }: Packet,
    result: Record<string, number>,
    fds: readonly Held[],
  ): void {
    if (message.op === "hello")
      this.#greeted(result as unknown as { session: number; resumed: boolean });
    if (message.op === "restored") this.phase = "in";
    if (message.op === "changes") {
      this.changesNext = result.next;
      this.isUpToDate = !(result as unknown as ResultOf<"changes">).more;
    }
    if (message.op !== "create" && message.op !== "open") return;
    const lease = result.lease as number;
    const kind = message.op === "create" ? "owner" : message.access;
    const descriptor =
      message.op === "create" ? message.descriptor : (result.descriptor as unknown as Descriptor);
    const memory = message.op === "create" ? held : fds;
    const ofCreator = hasWriter({ descriptor }) ? "writer" : undefined;
    const role = message.op === "create" ? ofCreator : message.role;
    this.held.set(lease, {
      lease,
      object: result.object as number,
      kind,
      role,
      descriptor,
      memory,
    });
  }

  #greeted({ session, resumed }: { readonly session: number; readonly resumed: boolean }): void {
    const canResume = identityOf(this.process.peer) !== undefined && !this.disconnected;
    assert.ok(
      resumed || this.held.size === 0 || !canResume,
      "a session that holds leases can be resumed",
    );
    if (!resumed) this.forgetAll();
    this.disconnected = false;
    this.session = session;
    this.phase = resumed ? "restoring" : "in";
    this.toRestore = [...this.held.keys()];
  }

  #failed(message: Request, code: string): void {
    if (message.op !== "restore" || !this.held.has(message.lease)) return;
    assert.notEqual(code, "NOT_FOUND", `lease ${message.lease} was granted and not released`);
    this.toRestore.push(message.lease);
  }
}
