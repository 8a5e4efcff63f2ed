/**
 * The hub's core with recording ports. Descriptors are numbers that must be opened and closed once,
 * replies are collected, and the test sets what each descriptor is.
 */
import assert from "node:assert/strict";
import { HubCore } from "../../src/hub/core/hub-core.js";
import type { ConnectionId, Peer } from "../../src/hub/core/ports.js";
import { type HubPolicy, privatePolicy } from "../../src/hub/limits/policy.js";
import { encodeMessage } from "../../src/wire/codec.js";
import type { Request, RequestOf } from "../../src/wire/messages.js";
import { type Answered, RecordingPorts } from "./recording-ports.js";

export type { Answered };

type Fields<Op extends Request["op"]> = Omit<RequestOf<Op>, "v" | "id" | "op">;

export const HUB_UID = 500;

/** A process of the hub's own user. Its pid distinguishes it from others. */
export function peerOf(pid: number, changes: Partial<Peer> = {}): Peer {
  return {
    pid,
    pidNamespace: 1,
    pidfdInode: null,
    startTicks: pid * 10,
    uid: HUB_UID,
    gid: HUB_UID,
    groups: [],
    ...changes,
  };
}

export class CoreRig extends RecordingPorts {
  readonly core: HubCore<number>;
  #lastId = 0;

  constructor(policy: HubPolicy = privatePolicy(HUB_UID), lastId = 0) {
    super();
    const identity = {
      version: "0",
      instance: "test",
      pid: 1,
      startedAtMs: 0,
      socket: "/test",
      idleMs: null,
    };
    this.core = new HubCore<number>(identity, policy, this, lastId);
  }

  /** A connection of its own process that has said hello. */
  greeted(id: ConnectionId, program = "test", peer: Peer = peerOf(1000 + id)): ConnectionId {
    this.core.connected(id, peer);
    this.ask(id, "hello", { client: { version: "1", program } });
    return id;
  }

  /** Another connection of the process, which resumes a session. */
  resumed(id: ConnectionId, session: number, peer: Peer): Record<string, unknown> {
    this.core.connected(id, peer);
    return this.result(id, "hello", {
      client: { version: "1", program: "test" },
      resume: { session },
    });
  }

  /** Sends a request and returns its id. */
  send<Op extends Request["op"]>(
    connection: ConnectionId,
    op: Op,
    fields: Fields<Op>,
    fds: readonly number[] = [],
  ): number {
    this.#lastId += 1;
    const message = { v: 1, id: this.#lastId, op, ...fields } as unknown as Request;
    this.core.packet(connection, encodeMessage(message), fds);
    return this.#lastId;
  }

  /** Sends a request that is answered at once. */
  ask<Op extends Request["op"]>(
    connection: ConnectionId,
    op: Op,
    fields: Fields<Op>,
    fds: readonly number[] = [],
  ): Answered {
    const id = this.send(connection, op, fields, fds);
    const answers = this.answersTo(connection, id);
    assert.equal(answers.length, 1, `${op} has ${answers.length} answers`);
    return answers[0] as Answered;
  }

  /** Like `ask`, for a request that succeeds. Returns the result. */
  result<Op extends Request["op"]>(
    connection: ConnectionId,
    op: Op,
    fields: Fields<Op>,
    fds: readonly number[] = [],
  ): Record<string, unknown> {
    const { reply } = this.ask(connection, op, fields, fds);
    assert.ok(reply.ok, JSON.stringify(reply));
    return reply.result as Record<string, unknown>;
  }

  /** Like `ask`, for a request that fails. Returns the error's code. */
  failure<Op extends Request["op"]>(
    connection: ConnectionId,
    op: Op,
    fields: Fields<Op>,
    fds: readonly number[] = [],
  ): string {
    const { reply } = this.ask(connection, op, fields, fds);
    assert.ok(!reply.ok, JSON.stringify(reply));
    return reply.error.code;
  }

  answersTo(connection: ConnectionId, id: number): Answered[] {
    return this.answered.filter(
      (answer) => answer.connection === connection && answer.reply.id === id,
    );
  }

  codes(connection: ConnectionId, id: number): string[] {
    return this.answersTo(connection, id).map(({ reply }) => (reply.ok ? "ok" : reply.error.code));
  }
}
