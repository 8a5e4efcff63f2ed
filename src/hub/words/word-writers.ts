/**
 * The processes that write words into the memory of clients. Orders of one user are carried out one
 * after the other, and a process has orders of one user at a time. So a user whose memory makes
 * writes wait holds up nobody else, and the hub itself waits for no write.
 *
 *   user A: order, order, order --> process 1
 *   user B: order, order        --> process 2, started if no other one is free for a moment
 *   user C: order                   waits for the next free process
 */
import type { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import type { Log } from "../../base/log-events.js";
import { GrowingPause } from "../../base/pause.js";
import { releaseAll } from "../../base/scope.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { codeOf, describeError } from "../hub-log.js";
import type { WordOrder } from "./file-words.js";
import type { WordWriter, WriterEvents } from "./writer-process.js";

/** A process that does not wait answers far sooner. */
const PATIENCE_MS = 20;
/** After this time without an answer the hub looks for the reason. */
const SILENCE_MS = 1_000;
/** How many orders of its user a process has at a time. Then others get their turn. */
const BATCH = 16;
const IDLE_MAX = 2;
/** After so many deaths in a row the hub writes directly for a while. */
const DEATHS_MAX = 3;
const PAUSE_MS_MAX = 60_000;

export interface WritersPorts {
  /** Starts a process. May throw. */
  start(events: WriterEvents): WordWriter;
  /** Writes without a process, and throws nothing. */
  write(file: OwnedFd, order: WordOrder): CudaIpcError | undefined;
  readonly log: Log;
}

type OnWritten = (failure: CudaIpcError | undefined) => void;

interface Entry {
  readonly file: OwnedFd;
  readonly order: WordOrder;
  readonly onWritten: OnWritten[];
}

interface Lane {
  readonly user: number;
  /** Without an answer, oldest first. */
  readonly entries: Entry[];
  /** How many of them, from the first, its process has. */
  given: number;
  slot: Slot | undefined;
}

interface Slot {
  readonly writer: WordWriter;
  lane: Lane | undefined;
  /** By the hub, because it was stopped. */
  killed: boolean;
  silence: NodeJS.Timeout | undefined;
}

interface Use {
  count: number;
  close: (() => void) | undefined;
}

export class WordWriters {
  readonly #ports: WritersPorts;
  /** Of users with unwritten orders. Who waits longest for a process is first. */
  readonly #lanes = new Map<number, Lane>();
  readonly #slots = new Set<Slot>();
  /** The descriptors of unwritten orders. */
  readonly #uses = new Map<OwnedFd, Use>();
  readonly #pause = new GrowingPause(PAUSE_MS_MAX);
  #patience: NodeJS.Timeout | undefined;
  #deaths = 0;
  #directUntilMs = 0;
  readonly #now: () => number;

  constructor(ports: WritersPorts, now = () => performance.now()) {
    this.#ports = ports;
    this.#now = now;
  }

  /** The file stays open until it is written, if it is closed by `close`. */
  give(user: number, file: OwnedFd, order: WordOrder): void {
    const lane = this.#lanes.get(user) ?? { user, entries: [], given: 0, slot: undefined };
    this.#lanes.set(user, lane);
    const use = this.#uses.get(file) ?? { count: 0, close: undefined };
    use.count += 1;
    this.#uses.set(file, use);
    lane.entries.push({ file, order, onWritten: [] });
    this.#assign();
  }

  unwrittenOf(user: number): number {
    return this.#lanes.get(user)?.entries.length ?? 0;
  }

  /**
   * Calls back once all that was given for this user is written, with the failure of the last.
   * @returns false if all is written. Then it does not call.
   */
  whenWritten(user: number, act: OnWritten): boolean {
    const last = this.#lanes.get(user)?.entries.at(-1);
    last?.onWritten.push(act);
    return last !== undefined;
  }

  /** Closes now, or once all is written into this file. */
  close(file: OwnedFd, close: () => void): void {
    const use = this.#uses.get(file);
    if (use === undefined) close();
    else use.close = close;
  }

  /**
   * @param rest what becomes of unwritten orders: the processes `finish` them when they can, or
   * `drop` them because the next hub writes them
   */
  end(rest: "finish" | "drop"): void {
    clearTimeout(this.#patience);
    const [some] = this.#slots;
    for (const { slot = some, entries, given } of this.#lanes.values()) {
      if (rest === "drop" || slot === undefined) continue;
      for (const { file, order } of entries.slice(slot.killed ? 0 : given)) {
        if (slot.killed) this.#ports.write(file, order);
        else this.#tryGive(slot, file, order);
      }
    }
    const slots = [...this.#slots];
    const closes = [...this.#uses.values()].map(
      ({ close }) =>
        () =>
          close?.(),
    );
    this.#slots.clear();
    this.#lanes.clear();
    this.#uses.clear();
    releaseAll([
      ...slots.flatMap(({ writer, silence }) => [
        () => clearTimeout(silence),
        () => (rest === "drop" ? writer.kill() : undefined),
        () => writer.close(),
      ]),
      ...closes,
    ]);
  }

  #assign(): void {
    for (const lane of [...this.#lanes.values()]) {
      // What follows a direct write may have come back here.
      if (this.#lanes.get(lane.user) !== lane) continue;
      lane.slot ??= this.#freeSlot(lane);
      if (lane.slot !== undefined) this.#fill(lane, lane.slot);
      else if (this.#now() < this.#directUntilMs) this.#writeDirectly(lane);
      else this.#awaitSlot();
    }
  }

  #freeSlot(lane: Lane): Slot | undefined {
    const found = [...this.#slots].find((slot) => slot.lane === undefined);
    const slot = found ?? (this.#slots.size === 0 ? this.#startSlot() : undefined);
    if (slot !== undefined) slot.lane = lane;
    return slot;
  }

  #awaitSlot(): void {
    if (this.#slots.size >= limits.wordWritersMax) return;
    this.#patience ??= setTimeout(() => {
      this.#patience = undefined;
      const isStarting = [...this.#slots].some(({ writer }) => !writer.ready);
      const isAwaited = [...this.#lanes.values()].some(({ slot }) => slot === undefined);
      if (isAwaited && !isStarting) this.#startSlot();
      this.#assign();
    }, PATIENCE_MS).unref();
  }

  #startSlot(): Slot | undefined {
    if (this.#now() < this.#directUntilMs) return undefined;
    try {
      const writer = this.#ports.start({
        onAnswer: (failure) => this.#onAnswer(slot, failure),
        onGone: (reason) => this.#onGone(slot, reason),
      });
      const slot: Slot = { writer, lane: undefined, killed: false, silence: undefined };
      this.#slots.add(slot);
      return slot;
    } catch (error) {
      this.#writeDirectlyForNow(error);
      return undefined;
    }
  }

  #fill(lane: Lane, slot: Slot): void {
    if (lane.given > 0) return;
    for (const { file, order } of lane.entries.slice(0, BATCH)) {
      if (!this.#tryGive(slot, file, order)) break;
      lane.given += 1;
    }
    // The system refuses to send more descriptors, perhaps for long.
    if (lane.given === 0) {
      this.#leave(lane, slot);
      this.#writeDirectly(lane);
    } else this.#expectAnswer(slot);
  }

  #tryGive({ writer }: Slot, file: OwnedFd, order: WordOrder): boolean {
    try {
      writer.give(file, order);
      return true;
    } catch (error) {
      const message = `cannot give an order to a process: ${describeError(error)}`;
      this.#ports.log("internal-error", message, codeOf(error));
      return false;
    }
  }

  #expectAnswer(slot: Slot): void {
    clearTimeout(slot.silence);
    slot.silence = setTimeout(() => this.#onSilence(slot), SILENCE_MS).unref();
  }

  #onSilence(slot: Slot): void {
    const { writer, lane } = slot;
    if (lane === undefined) return;
    if (writer.isStopped) {
      slot.killed = true;
      writer.kill();
    } else if (writer.ready) {
      const { user: uid } = lane;
      const message =
        `a write into memory of user ${uid} waits: somebody holds a lock of the file. ` +
        "The hub goes on meanwhile";
      this.#ports.log("memory-waits", message, { uid });
    }
    this.#expectAnswer(slot);
  }

  #onAnswer(slot: Slot, failure: CudaIpcError | undefined): void {
    const { lane } = slot;
    if (lane === undefined) return;
    this.#deaths = 0;
    this.#pause.reset();
    lane.given -= 1;
    const entry = lane.entries.shift();
    if (lane.given === 0) this.#leave(lane, slot);
    else this.#expectAnswer(slot);
    this.#assign();
    if (entry !== undefined) this.#written(entry, failure);
  }

  /** Frees the process, which ends if there are enough others. */
  #leave(lane: Lane, slot: Slot): void {
    clearTimeout(slot.silence);
    slot.lane = undefined;
    lane.slot = undefined;
    lane.given = 0;
    this.#lanes.delete(lane.user);
    // At the end: others may wait longer.
    if (lane.entries.length > 0) this.#lanes.set(lane.user, lane);
    const isAwaited = [...this.#lanes.values()].some((other) => other.slot === undefined);
    const idle = [...this.#slots].filter((other) => other.lane === undefined);
    if (isAwaited || idle.length <= IDLE_MAX) return;
    this.#slots.delete(slot);
    slot.writer.close();
  }

  #written({ file, onWritten }: Entry, failure: CudaIpcError | undefined): void {
    const use = this.#uses.get(file);
    const acts: (() => void)[] = onWritten.map((act) => () => act(failure));
    if (use !== undefined) {
      use.count -= 1;
      if (use.count === 0) {
        this.#uses.delete(file);
        acts.push(() => use.close?.());
      }
    }
    if (failure !== undefined)
      this.#ports.log("memory-not-written", describeError(failure), codeOf(failure));
    try {
      releaseAll(acts);
    } catch (error) {
      const message = `cannot go on after a write: ${describeError(error)}`;
      this.#ports.log("internal-error", message, codeOf(error));
    }
  }

  #onGone(slot: Slot, reason: unknown): void {
    const { lane } = slot;
    this.#slots.delete(slot);
    if (lane !== undefined) this.#leave(lane, slot);
    this.#deaths += 1;
    const found = reason === undefined ? "it has ended" : describeError(reason);
    this.#ports.log("words-failed", `a process that writes words failed: ${found}`);
    if (this.#deaths >= DEATHS_MAX) this.#writeDirectlyForNow(reason);
    this.#assign();
  }

  /** A broken installation would otherwise start a process for each write, forever. */
  #writeDirectlyForNow(reason: unknown): void {
    this.#directUntilMs = this.#now() + this.#pause.nextMs();
    const message = `the hub writes words itself for now: ${describeError(reason)}`;
    this.#ports.log("words-not-started", message, codeOf(reason));
  }

  #writeDirectly(lane: Lane): void {
    this.#lanes.delete(lane.user);
    const failures = lane.entries.map(({ file, order }) => this.#ports.write(file, order));
    for (const [index, entry] of lane.entries.entries()) this.#written(entry, failures[index]);
  }
}
