/**
 * Ports of the hub's core that record every call. Descriptors are numbers. Each must be opened and
 * closed once.
 */
import assert from "node:assert/strict";
import { CudaIpcError } from "../../src/base/errors.js";
import type { ConnectionId, HubPorts, Peer } from "../../src/hub/core/ports.js";
import type { HubRecord } from "../../src/hub/restart/hub-records.js";
import type { MemoryFileFacts } from "../../src/os/memory-file.js";
import type { ThreadIdentity } from "../../src/os/thread-identity.js";
import type { WithoutWriter } from "../../src/ring/channel-end.js";
import { controlByteLength, memorySlots } from "../../src/ring/channel-layout.js";
import type { ChannelContent } from "../../src/wire/channel-content.js";
import { encodeMessage } from "../../src/wire/codec.js";
import type { HubStatus, Reply } from "../../src/wire/messages.js";

export interface Answered {
  readonly connection: ConnectionId;
  readonly reply: Reply;
  readonly fds: readonly number[];
}

export class RecordingPorts implements HubPorts<number> {
  /** Descriptors that the core owns. */
  readonly open = new Set<number>();
  readonly facts = new Map<number, MemoryFileFacts>();
  readonly answered: Answered[] = [];
  readonly hungUp: ConnectionId[] = [];
  /** Timelines that the core ended. */
  readonly ended: { readonly fd: number; readonly byteOffset: number }[] = [];
  readonly awaited: { readonly fd: number; readonly byteOffset: number }[] = [];
  /**
   * The core's writes into channels and the bells that it rang, in order, with their descriptors.
   */
  readonly channelWords: string[] = [];
  /** Descriptors of bells. */
  readonly bells = new Set<number>();
  /** Control files whose writer has closed the channel. */
  readonly closedByWriter = new Set<number>();
  readonly records: HubRecord[] = [];
  readonly forgotten: ConnectionId[] = [];
  readonly paused: { readonly connection: ConnectionId; readonly milliseconds: number }[] = [];
  /** Threads that the core asked to watch, with their connections. */
  readonly threads: { readonly connection: ConnectionId; readonly thread: ThreadIdentity }[] = [];
  seesThreads = true;
  /** The descriptors of each object that `memoryArrived` reported. */
  readonly kept = new Map<number, readonly number[]>();
  /** Steps that still have to run. Without `defers` they run at once. */
  readonly steps: (() => boolean)[] = [];
  defers = false;
  /** By session, the connection of the process that holds something of it. */
  readonly holders = new Map<number, ConnectionId>();
  /** Whether a published object is kept for the next hub at once. */
  keepsAtOnce = true;
  readonly lost: string[] = [];
  /** Who disconnected whom: `session 3 (camera) by 1001`. */
  readonly disconnections: string[] = [];
  stops = 0;
  restarts = 0;
  /** Whether a keeper would start the next hub. */
  hasKeeper = true;
  monotonic = 0;
  /** `record` throws it once, for a record that grants something. */
  recordFailure: CudaIpcError | undefined;
  /** Whether memory files can be reopened for writing. */
  reopensWritable = true;
  /** `beginSeat` throws it once. */
  placeFailure: CudaIpcError | undefined;
  /** What waits for words to be written. Undefined if they are written at once. */
  late:
    | {
        readonly user: number;
        readonly act: (failure: CudaIpcError | undefined) => void;
      }[]
    | undefined;
  /** `checkWritten` throws it once. */
  unwrittenFailure: CudaIpcError | undefined;
  /** `reopenReadOnly` throws it once. */
  reopenFailure: CudaIpcError | undefined;
  #lastFd = 100;
  #clock = 0;

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

  /** All descriptors of a channel, in order. */
  channelFds(content: ChannelContent): number[] {
    const places = Array.from({ length: content.readersMax }, () => [this.fd(), this.bell()]);
    const byteLength = memorySlots(content) * content.slotStride;
    const control = this.fd({ byteLength: controlByteLength(content) });
    return [this.fd({ byteLength }), control, this.bell(), ...places.flat()];
  }

  reply(connection: ConnectionId, reply: Reply, fds: readonly number[]): void {
    for (const fd of fds)
      assert.ok(this.open.has(fd), `descriptor ${fd} is sent after it was closed`);
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

  /** Runs all deferred steps. */
  runSteps(): void {
    for (let step = this.steps[0]; step !== undefined; step = this.steps[0])
      if (!step()) this.steps.shift();
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
    if (
      failure !== undefined &&
      records.some(({ t }) => ["object", "lease", "published"].includes(t))
    ) {
      this.recordFailure = undefined;
      throw failure;
    }
    this.records.push(...records);
  }

  memoryArrived(object: number, fds: readonly number[]): void {
    for (const fd of fds)
      assert.ok(this.open.has(fd), `descriptor ${fd} is kept after it was closed`);
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

  metrics(): HubStatus["metrics"] {
    return null;
  }

  objectLost(words: string): void {
    this.lost.push(words);
  }

  disconnected(session: number, _peer: Peer, program: string, by: Peer): void {
    this.disconnections.push(`session ${session} (${program}) by ${by.pid}`);
  }

  closeFd(fd: number): void {
    assert.ok(this.open.delete(fd), `descriptor ${fd} is closed a second time`);
    this.facts.delete(fd);
    this.bells.delete(fd);
  }

  inspectMemoryFile(fd: number): MemoryFileFacts {
    assert.ok(this.open.has(fd), `descriptor ${fd} is inspected after it was closed`);
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

  awaitOwner(fd: number, byteOffset: number): boolean {
    assert.ok(this.open.has(fd), `a timeline in descriptor ${fd} is kept after it was closed`);
    this.awaited.push({ fd, byteOffset });
    return !this.ended.some((line) => line.fd === fd);
  }

  isDeviceMemory(fd: number): boolean {
    assert.ok(this.open.has(fd), `descriptor ${fd} is inspected after it was closed`);
    return !this.bells.has(fd);
  }

  isBell(fd: number): boolean {
    assert.ok(this.open.has(fd), `descriptor ${fd} is inspected after it was closed`);
    return this.bells.has(fd);
  }

  beginSeat(page: number, lease: number): void {
    const failure = this.placeFailure;
    this.placeFailure = undefined;
    if (failure !== undefined) throw failure;
    this.#write(page, `begin ${lease}`);
  }

  endSeat(page: number): void {
    this.#write(page, "end place");
  }

  endWriter(control: number, next: WithoutWriter): boolean {
    this.#write(control, next);
    return !this.closedByWriter.has(control);
  }

  whenWritten(user: number, act: (failure: CudaIpcError | undefined) => void): boolean {
    this.late?.push({ user, act });
    return this.late !== undefined;
  }

  checkWritten(): void {
    const failure = this.unwrittenFailure;
    this.unwrittenFailure = undefined;
    if (failure !== undefined) throw failure;
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

function theFile(
  number: number,
): Pick<MemoryFileFacts, "inode" | "sealsClosed" | "othersMayWrite"> {
  return { inode: `1:${number}`, sealsClosed: true, othersMayWrite: false };
}
