/**
 * The world of a simulated hub. Descriptors are numbers, files are records, the journal is a list,
 * and there is a clock and a service manager. It fails on command, and detects descriptors that are
 * closed twice or used after close.
 */
import { CudaIpcError } from "../../../src/base/errors.js";
import type { ConnectionId, HubPorts } from "../../../src/hub/core/ports.js";
import type { HubRecord, StoredRecord } from "../../../src/hub/restart/hub-records.js";
import type { MemoryFileFacts } from "../../../src/os/memory-file.js";
import type { WithoutWriter } from "../../../src/ring/channel-end.js";
import type { Reply } from "../../../src/wire/messages.js";

/** A file. It outlives all descriptors that the hub has of it. */
export interface File {
  readonly number: number;
  readonly facts: Omit<MemoryFileFacts, "writable">;
  /** Whether a read-only descriptor can be reopened for writing. */
  readonly reopenable: boolean;
  /** Whether the timeline in it has been ended. */
  ended: boolean;
  /** Whether the hub has marked that the timeline in it waits for its next owner. */
  awaited: boolean;
  readonly isBell: boolean;
  /** In a page: the lease that the hub wrote into it. */
  lease: number;
  /**
   * In a control file: what the hub wrote when the writer left, and whether the writer had closed
   * the channel itself.
   */
  next: WithoutWriter | undefined;
  closed: boolean;
}

/** A descriptor as its holder knows it. Each process has its own number for it. */
export interface Held {
  readonly file: File;
  readonly writable: boolean;
}

export interface SentReply {
  readonly connection: ConnectionId;
  readonly reply: Reply;
  readonly fds: readonly Held[];
}

/** The hub died in the middle of an event. Nothing that it does after that happens. */
class HubDied extends Error {}

const GAINS: ReadonlySet<string> = new Set(["session", "object", "lease", "published"]);

export class World implements HubPorts<number> {
  /** The hub's open descriptors. */
  readonly open = new Map<number, Held>();
  journal: StoredRecord[] = [];
  /** The file of the latest host pool. */
  poolFile: File | undefined;
  /** By object, the descriptors that the service manager keeps. */
  readonly store = new Map<number, readonly Held[]>();

  // What the hub did in the current event.
  readonly replies: SentReply[] = [];
  readonly hungUp: ConnectionId[] = [];
  readonly forgotten: ConnectionId[] = [];
  readonly paused: { readonly connection: ConnectionId; readonly milliseconds: number }[] = [];
  readonly endedNow: File[] = [];
  readonly rung = new Set<File>();
  stops = 0;
  restarts = 0;
  /** Whether the hub has a keeper, which holds descriptors for the next hub and starts it. */
  hasKeeper = false;
  /** While the keeper is busy, it takes nothing that it should keep. */
  keeperIsBusy = false;
  /** Objects whose descriptors the keeper has, all of them. */
  readonly kept = new Set<number>();
  /** The hub's reports about lost objects. */
  readonly lost: string[] = [];

  // What goes wrong in the current event.
  diskFull = false;
  fdTableFull = false;
  /** How many records the hub still writes before it dies; undefined if it lives. */
  recordsToLive: number | undefined;
  dead = false;

  /**
   * What the hub must never do. WHY kept: the hub would answer an error that is thrown here like
   * any other.
   */
  readonly violations: string[] = [];

  clock = 1_000;
  readonly #steps: (() => boolean)[] = [];
  #lastFd = 0;
  #lastFile = 0;

  beginEvent(): void {
    this.replies.length = 0;
    this.hungUp.length = 0;
    this.forgotten.length = 0;
    this.paused.length = 0;
    this.endedNow.length = 0;
    this.rung.clear();
    this.stops = 0;
    this.restarts = 0;
    this.lost.length = 0;
    this.diskFull = false;
    this.fdTableFull = false;
    this.recordsToLive = undefined;
  }

  /** Replaces the hub's process, whose descriptors are all gone. */
  rebirth(): void {
    this.open.clear();
    this.#steps.length = 0;
    this.dead = false;
  }

  file(changes: Partial<File["facts"]> & { reopenable?: boolean; isBell?: boolean } = {}): File {
    this.#lastFile += 1;
    const { reopenable = true, isBell = false, ...facts } = changes;
    const seals = { sizeSealed: true, contentSealed: true, sealsClosed: true };
    const whole = { byteLength: 4096, ...seals, othersMayWrite: false, ...facts };
    const inode = `1:${this.#lastFile}`;
    const powers = { reopenable, isBell };
    const untouched = { ended: false, awaited: false, lease: 0, next: undefined, closed: false };
    return { number: this.#lastFile, facts: { ...whole, inode }, ...powers, ...untouched };
  }

  /** Gives the hub a descriptor. */
  receive(held: Held): number {
    this.#lastFd += 1;
    this.open.set(this.#lastFd, held);
    return this.#lastFd;
  }

  reply(connection: ConnectionId, reply: Reply, fds: readonly number[]): void {
    const sent = fds.map((fd) => this.#look(fd, "sent"));
    if (!this.dead) this.replies.push({ connection, reply, fds: sent });
  }

  hangUp(connection: ConnectionId): void {
    if (!this.dead) this.hungUp.push(connection);
  }

  later(_connection: ConnectionId, _uid: number, step: () => boolean): void {
    this.#steps.push(step);
  }

  /** Runs everything that the hub has deferred. */
  runSteps(): void {
    for (let step = this.#steps[0]; step !== undefined; step = this.#steps[0])
      if (!step()) this.#steps.shift();
  }

  forget(connection: ConnectionId): void {
    if (!this.dead) this.forgotten.push(connection);
  }

  watchThread(): boolean {
    return true;
  }

  pause(connection: ConnectionId, milliseconds: number): void {
    if (!this.dead) this.paused.push({ connection, milliseconds });
  }

  stop(): void {
    if (!this.dead) this.stops += 1;
  }

  restart(): void {
    if (!this.hasKeeper) throw new CudaIpcError("NO_KEEPER", "nobody starts the next hub");
    if (!this.dead) this.restarts += 1;
  }

  record(records: readonly HubRecord[]): void {
    if (this.dead) throw new HubDied("the hub has died");
    if (this.diskFull && records.some(({ t }) => GAINS.has(t)))
      throw new CudaIpcError("DISK_FULL", "no space left");
    for (const record of records) {
      if (this.recordsToLive !== undefined) {
        if (this.recordsToLive === 0) this.#die();
        this.recordsToLive -= 1;
      }
      this.journal.push(record);
    }
    // WHY here too: the hub can die after its last record, before that record has taken effect.
    if (this.recordsToLive === 0) this.#die();
  }

  memoryArrived(object: number, fds: readonly number[]): void {
    const held = fds.map((fd) => this.#look(fd, "kept"));
    if (this.dead) return;
    this.store.set(object, held);
    if (!this.hasKeeper || this.keeperIsBusy) this.kept.delete(object);
    else this.kept.add(object);
  }

  memoryGone(object: number): void {
    if (this.dead) return;
    this.store.delete(object);
    this.kept.delete(object);
  }

  holderArrived(): void {}

  holderGone(): void {}

  isKept(object: number): boolean {
    return !this.hasKeeper || this.kept.has(object);
  }

  keeper(): null {
    return null;
  }

  metrics(): null {
    return null;
  }

  objectLost(words: string): void {
    if (!this.dead) this.lost.push(words);
  }

  disconnected(): void {}

  closeFd(fd: number): void {
    if (!this.open.delete(fd) && !this.dead)
      this.#violation(`descriptor ${fd} is closed a second time`);
  }

  inspectMemoryFile(fd: number): MemoryFileFacts {
    const { file, writable } = this.#look(fd, "looked at");
    return { ...file.facts, writable };
  }

  reopenReadOnly(fd: number): number {
    const { file } = this.#look(fd, "reopened");
    this.#checkFdTable();
    return this.receive({ file, writable: false });
  }

  reopenWritable(fd: number): number | undefined {
    const { file } = this.#look(fd, "reopened");
    this.#checkFdTable();
    return file.reopenable ? this.receive({ file, writable: true }) : undefined;
  }

  endTimeline(fd: number, byteOffset: number): void {
    const { file, writable } = this.#look(fd, "written to");
    // The mark of legacy memory is at byte 0.
    if (byteOffset !== 128 && byteOffset !== 0)
      this.#violation(`a timeline is ended at byte ${byteOffset}`);
    if (!writable || this.dead) return;
    file.ended = true;
    this.endedNow.push(file);
  }

  awaitOwner(fd: number, byteOffset: number): boolean {
    const { file, writable } = this.#look(fd, "written to");
    if (byteOffset !== 128) this.#violation(`an owner is awaited at byte ${byteOffset}`);
    if (file.ended) return false;
    if (writable && !this.dead) file.awaited = true;
    return true;
  }

  isDeviceMemory(fd: number): boolean {
    return !this.#look(fd, "looked at").file.isBell;
  }

  isBell(fd: number): boolean {
    return this.#look(fd, "looked at").file.isBell;
  }

  beginSeat(fd: number, lease: number): void {
    const { file } = this.#look(fd, "written to");
    if (!this.dead) file.lease = lease;
  }

  endSeat(fd: number): void {
    const { file } = this.#look(fd, "written to");
    if (!this.dead) file.lease = 0;
  }

  endWriter(fd: number, next: WithoutWriter): boolean {
    const { file, writable } = this.#look(fd, "written to");
    if (file.closed) return false;
    if (!this.dead && (writable || file.reopenable)) file.next = next;
    return true;
  }

  whenWritten(): boolean {
    return false;
  }

  checkWritten(): void {}

  ringBell(fd: number): void {
    const { file } = this.#look(fd, "rung");
    if (!file.isBell) this.#violation(`descriptor ${fd} is no bell`);
    if (!this.dead) this.rung.add(file);
  }

  troubles(): readonly string[] {
    return [];
  }

  now(): number {
    return this.clock;
  }

  monotonicMs(): number {
    return this.clock;
  }

  #die(): never {
    this.dead = true;
    throw new HubDied("the hub dies while it writes a record");
  }

  #checkFdTable(): void {
    if (this.fdTableFull) throw new CudaIpcError("TOO_MANY_FDS", "the table of open files is full");
  }

  #look(fd: number, verb: string): Held {
    const held = this.open.get(fd);
    if (held === undefined) this.#violation(`descriptor ${fd} is ${verb} after it was closed`);
    return held;
  }

  #violation(what: string): never {
    this.violations.push(what);
    throw new Error(what);
  }
}
