/**
 * The hub's core without a world: descriptors are numbers whose opening and closing is accounted for, replies are collected,
 * and what a descriptor's memory is can be said by the test.
 */
import assert from "node:assert/strict";
import { CudaIpcError } from "../../src/base/errors.js";
import { HubCore } from "../../src/hub/hub-core.js";
import type { HubRecord } from "../../src/hub/hub-records.js";
import { type HubPolicy, privatePolicy } from "../../src/hub/policy.js";
import type { ConnectionId, HubPorts, Peer } from "../../src/hub/ports.js";
import type { MemoryFileFacts } from "../../src/os/memory-file.js";
import type { ThreadIdentity } from "../../src/os/thread-identity.js";
import type { WithoutWriter } from "../../src/ring/channel-end.js";
import { controlByteLength, memorySlots } from "../../src/ring/channel-layout.js";
import type { ChannelContent } from "../../src/wire/channel-content.js";
import { encodeMessage } from "../../src/wire/codec.js";
import type { HubStatus, Reply, Request, RequestOf } from "../../src/wire/messages.js";

export interface Answered {
  readonly connection: ConnectionId;
  readonly reply: Reply;
  readonly fds: readonly number[];
}

type Fields<Op extends Request["op"]> = Omit<RequestOf<Op>, "v" | "id" | "op">;

export const HUB_UID = 500;

/** A process of the hub's own user, told from others by its number. */
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

export class CoreRig implements HubPorts<number> {
  readonly core: HubCore<number>;
  /** Descriptors that the core owns. */
  readonly open = new Set<number>();
  readonly facts = new Map<number, MemoryFileFacts>();
  readonly answered: Answered[] = [];
  readonly hungUp: ConnectionId[] = [];
  /** Timelines that the core ended. */
  readonly ended: { readonly fd: number; readonly byteOffset: number }[] = [];
  /** What the core wrote into channels and which bells it rang, in order, with descriptors as they are. */
  readonly channelWords: string[] = [];
  /** Descriptors of bells. */
  readonly bells = new Set<number>();
  /** Control files whose writer has closed the channel. */
  readonly closedByWriter = new Set<number>();
  readonly records: HubRecord[] = [];
  readonly forgotten: ConnectionId[] = [];
  readonly paused: { readonly connection: ConnectionId; readonly milliseconds: number }[] = [];
  /** Threads that the core wants to be watched, by their connections. */
  readonly threads: { readonly connection: ConnectionId; readonly thread: ThreadIdentity }[] = [];
  seesThreads = true;
  /** Descriptors of objects that the world was told of. */
  readonly kept = new Map<number, readonly number[]>();
  /** What is still to be done, where `defers` says that it is not done at once. */
  readonly steps: (() => boolean)[] = [];
  defers = false;
  /** By session, the connection of the process that has something of it. */
  readonly holders = new Map<number, ConnectionId>();
  /** Whether the next hub would have whatever is published. */
  keepsAtOnce = true;
  readonly lost: string[] = [];
  stops = 0;
  restarts = 0;
  /** Whether somebody would start the next hub. */
  hasKeeper = true;
  monotonic = 0;
  /** What `record` throws, once, for a gain. */
  recordFailure: CudaIpcError | undefined;
  /** Whether memory files can be opened anew for writing. */
  reopensWritable = true;
  /** What `beginPlace` throws, once. */
  placeFailure: CudaIpcError | undefined;
  /** What `reopenReadOnly` throws, once. */
  reopenFailure: CudaIpcError | undefined;
  #lastFd = 100;
  #lastId = 0;
  #clock = 0;

  constructor(policy: HubPolicy = privatePolicy(HUB_UID), lastId = 0) {
    const identity = { version: "0", instance: "test", pid: 1, startedAtMs: 0, socket: "/test", idleMs: null };
    this.core = new HubCore<number>(identity, policy, this, lastId);
  }

  /** A descriptor for the core to own, of sealed memory unless `facts` says otherwise. */
  fd(facts: Partial<MemoryFileFacts> = {}): number {
    this.#lastFd += 1;
    this.open.add(this.#lastFd);
    this.facts.set(this.#lastFd, {
      byteLength: 4096,
      sizeSealed: true,
      contentSealed: true,
      writable: true,
      ...theFile(this.#lastFd),
      ...facts,
    });
    return this.#lastFd;
  }

  bell(): number {
    const fd = this.fd({ byteLength: 0, sizeSealed: false });
    this.bells.add(fd);
    return fd;
  }

  /** All that belongs to a channel, in order. */
  channelFds(content: ChannelContent): number[] {
    const places = Array.from({ length: content.readersMax }, () => [this.fd(), this.bell()]);
    const byteLength = memorySlots(content) * content.slotStride;
    const control = this.fd({ byteLength: controlByteLength(content) });
    return [this.fd({ byteLength }), control, this.bell(), ...places.flat()];
  }

  /** A connection that has said hello, of a process of its own. */
  greeted(id: ConnectionId, program = "test", peer: Peer = peerOf(1000 + id)): ConnectionId {
    this.core.connected(id, peer);
    this.ask(id, "hello", { client: { version: "1", program } });
    return id;
  }

  /** Another connection of the process, which goes on with a session. */
  resumed(id: ConnectionId, session: number, peer: Peer): Record<string, unknown> {
    this.core.connected(id, peer);
    return this.result(id, "hello", { client: { version: "1", program: "test" }, resume: { session } });
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

  /** As `ask`, for a request that succeeds. */
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

  /** As `ask`, for a request that fails: the code. */
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
    return this.answered.filter((answer) => answer.connection === connection && answer.reply.id === id);
  }

  codes(connection: ConnectionId, id: number): string[] {
    return this.answersTo(connection, id).map(({ reply }) => (reply.ok ? "ok" : reply.error.code));
  }

  reply(connection: ConnectionId, reply: Reply, fds: readonly number[]): void {
    for (const fd of fds) assert.ok(this.open.has(fd), `descriptor ${fd} is sent after it was closed`);
    encodeMessage(reply);
    this.answered.push({ connection, reply, fds: [...fds] });
  }

  hangUp(connection: ConnectionId): void {
    this.hungUp.push(connection);
  }

  stop(): void {
    this.stops += 1;
  }

  later(_connection: ConnectionId, _uid: number, step: () => boolean): void {
    this.steps.push(step);
    if (!this.defers) this.runSteps();
  }

  /** Runs all that was to be done later. */
  runSteps(): void {
    for (let step = this.steps[0]; step !== undefined; step = this.steps[0]) if (!step()) this.steps.shift();
  }

  forget(connection: ConnectionId): void {
    this.forgotten.push(connection);
  }

  watchThread(connection: ConnectionId, thread: ThreadIdentity): boolean {
    this.threads.push({ connection, thread });
    return this.seesThreads;
  }

  pause(connection: ConnectionId, milliseconds: number): void {
    this.paused.push({ connection, milliseconds });
  }

  restart(): void {
    if (!this.hasKeeper) throw new CudaIpcError("NO_KEEPER", "Cannot restart the hub");
    this.restarts += 1;
  }

  record(records: readonly HubRecord[]): void {
    const failure = this.recordFailure;
    if (failure !== undefined && records.some(({ t }) => ["object", "lease", "published"].includes(t))) {
      this.recordFailure = undefined;
      throw failure;
    }
    this.records.push(...records);
  }

  memoryArrived(object: number, fds: readonly number[]): void {
    for (const fd of fds) assert.ok(this.open.has(fd), `descriptor ${fd} is kept after it was closed`);
    this.kept.set(object, [...fds]);
  }

  memoryGone(object: number): void {
    this.kept.delete(object);
  }

  holderArrived(session: number, connection: ConnectionId): void {
    this.holders.set(session, connection);
  }

  holderGone(session: number): void {
    this.holders.delete(session);
  }

  isKept(): boolean {
    return this.keepsAtOnce;
  }

  keeper(): HubStatus["keeper"] {
    return null;
  }

  objectLost(words: string): void {
    this.lost.push(words);
  }

  closeFd(fd: number): void {
    assert.ok(this.open.delete(fd), `descriptor ${fd} is closed a second time`);
    this.facts.delete(fd);
    this.bells.delete(fd);
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
    return this.fd({ ...this.facts.get(fd), writable: false });
  }

  reopenWritable(fd: number): number | undefined {
    assert.ok(this.open.has(fd), `descriptor ${fd} is reopened after it was closed`);
    return this.reopensWritable ? this.fd({ ...this.facts.get(fd), writable: true }) : undefined;
  }

  endTimeline(fd: number, byteOffset: number): void {
    assert.ok(this.open.has(fd), `a timeline in descriptor ${fd} is ended after it was closed`);
    this.ended.push({ fd, byteOffset });
  }

  isDeviceMemory(fd: number): boolean {
    assert.ok(this.open.has(fd), `descriptor ${fd} is looked at after it was closed`);
    return !this.bells.has(fd);
  }

  isBell(fd: number): boolean {
    assert.ok(this.open.has(fd), `descriptor ${fd} is looked at after it was closed`);
    return this.bells.has(fd);
  }

  beginPlace(page: number, lease: number): void {
    const failure = this.placeFailure;
    this.placeFailure = undefined;
    if (failure !== undefined) throw failure;
    this.#write(page, `begin ${lease}`);
  }

  endPlace(page: number): void {
    this.#write(page, "end place");
  }

  endWriter(control: number, next: WithoutWriter): boolean {
    this.#write(control, next);
    return !this.closedByWriter.has(control);
  }

  ringBell(bell: number): void {
    assert.ok(this.bells.has(bell), `descriptor ${bell} is no bell`);
    this.#write(bell, "ring");
  }

  #write(fd: number, what: string): void {
    assert.ok(this.open.has(fd), `descriptor ${fd} is written to after it was closed`);
    this.channelWords.push(`${fd} ${what}`);
  }

  troubles(): readonly string[] {
    return [];
  }

  now(): number {
    this.#clock += 1;
    return this.#clock;
  }

  monotonicMs(): number {
    return this.monotonic;
  }
}

function theFile(number: number): Pick<MemoryFileFacts, "inode" | "sealsClosed" | "othersMayWrite"> {
  return { inode: `1:${number}`, sealsClosed: true, othersMayWrite: false };
}
