/**
 * The hub's core without a world: descriptors are numbers whose opening and closing is accounted for, replies are collected,
 * and what a descriptor's memory is can be said by the test.
 */
import assert from "node:assert/strict";
import type { CudaIpcError } from "../../src/base/errors.js";
import { HubCore } from "../../src/hub/hub-core.js";
import type { HubPorts, SessionId } from "../../src/hub/ports.js";
import type { MemoryFileFacts } from "../../src/os/memory-file.js";
import { encodeMessage } from "../../src/wire/codec.js";
import type { Reply, Request, RequestOf } from "../../src/wire/messages.js";

export interface Answered {
  readonly session: SessionId;
  readonly reply: Reply;
  readonly fds: readonly number[];
}

type Fields<Op extends Request["op"]> = Omit<RequestOf<Op>, "v" | "id" | "op">;

export class CoreRig implements HubPorts<number> {
  readonly core = new HubCore<number>(
    { version: "0", instance: "test", pid: 1, startedAtMs: 0, socket: "/test", idleMs: null },
    this,
  );
  /** Descriptors that the core owns. */
  readonly open = new Set<number>();
  readonly facts = new Map<number, MemoryFileFacts>();
  readonly answered: Answered[] = [];
  readonly hungUp: SessionId[] = [];
  /** Timelines that the core ended. */
  readonly ended: { readonly fd: number; readonly byteOffset: number }[] = [];
  stops = 0;
  /** What `reopenReadOnly` throws, once. */
  reopenFailure: CudaIpcError | undefined;
  #lastFd = 100;
  #lastId = 0;
  #clock = 0;

  /** A descriptor for the core to own, of sealed memory unless `facts` says otherwise. */
  fd(facts: Partial<MemoryFileFacts> = {}): number {
    this.#lastFd += 1;
    this.open.add(this.#lastFd);
    this.facts.set(this.#lastFd, { byteLength: 4096, sizeSealed: true, contentSealed: true, writable: true, ...facts });
    return this.#lastFd;
  }

  /** A session that has said hello. */
  greeted(id: SessionId, program = "test"): SessionId {
    this.core.sessionStarted(id, 1000 + id);
    this.ask(id, "hello", { client: { version: "1", program } });
    return id;
  }

  /** Sends a request and returns its id. */
  send<Op extends Request["op"]>(session: SessionId, op: Op, fields: Fields<Op>, fds: readonly number[] = []): number {
    this.#lastId += 1;
    const message = { v: 1, id: this.#lastId, op, ...fields } as unknown as Request;
    this.core.packet(session, encodeMessage(message), fds);
    return this.#lastId;
  }

  /** Sends a request that is answered at once. */
  ask<Op extends Request["op"]>(session: SessionId, op: Op, fields: Fields<Op>, fds: readonly number[] = []): Answered {
    const id = this.send(session, op, fields, fds);
    const answers = this.answersTo(session, id);
    assert.equal(answers.length, 1, `${op} has ${answers.length} answers`);
    return answers[0] as Answered;
  }

  /** As `ask`, for a request that succeeds. */
  result<Op extends Request["op"]>(
    session: SessionId,
    op: Op,
    fields: Fields<Op>,
    fds: readonly number[] = [],
  ): Record<string, unknown> {
    const { reply } = this.ask(session, op, fields, fds);
    assert.ok(reply.ok, JSON.stringify(reply));
    return reply.result as Record<string, unknown>;
  }

  /** As `ask`, for a request that fails: the code. */
  failure<Op extends Request["op"]>(
    session: SessionId,
    op: Op,
    fields: Fields<Op>,
    fds: readonly number[] = [],
  ): string {
    const { reply } = this.ask(session, op, fields, fds);
    assert.ok(!reply.ok, JSON.stringify(reply));
    return reply.error.code;
  }

  answersTo(session: SessionId, id: number): Answered[] {
    return this.answered.filter((answer) => answer.session === session && answer.reply.id === id);
  }

  codes(session: SessionId, id: number): string[] {
    return this.answersTo(session, id).map(({ reply }) => (reply.ok ? "ok" : reply.error.code));
  }

  reply(session: SessionId, reply: Reply, fds: readonly number[]): void {
    for (const fd of fds) assert.ok(this.open.has(fd), `descriptor ${fd} is sent after it was closed`);
    encodeMessage(reply);
    this.answered.push({ session, reply, fds: [...fds] });
  }

  hangUp(session: SessionId): void {
    this.hungUp.push(session);
  }

  stop(): void {
    this.stops += 1;
  }

  closeFd(fd: number): void {
    assert.ok(this.open.delete(fd), `descriptor ${fd} is closed a second time`);
    this.facts.delete(fd);
  }

  inspectMemoryFile(fd: number): MemoryFileFacts {
    assert.ok(this.open.has(fd), `descriptor ${fd} is looked at after it was closed`);
    return this.facts.get(fd) as MemoryFileFacts;
  }

  reopenReadOnly(fd: number): number {
    assert.ok(this.open.has(fd), `descriptor ${fd} is reopened after it was closed`);
    const failure = this.reopenFailure;
    this.reopenFailure = undefined;
    if (failure !== undefined) throw failure;
    return this.fd(this.facts.get(fd));
  }

  endTimeline(fd: number, byteOffset: number): void {
    assert.ok(this.open.has(fd), `a timeline in descriptor ${fd} is ended after it was closed`);
    this.ended.push({ fd, byteOffset });
  }

  now(): number {
    this.#clock += 1;
    return this.#clock;
  }
}
