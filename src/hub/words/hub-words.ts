/**
 * The hub's writes into the memory of clients. A hub that serves only its own user and root makes
 * them itself. Otherwise other processes make them (word-writers.ts), because a hostile user can
 * make each of them wait for a second.
 */
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import type { Log } from "../../base/log-events.js";
import { openFilesMax } from "../../os/open-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { HubPorts } from "../core/ports.js";
import { codeOf, describeError } from "../hub-log.js";
import { type HubPolicy, servesUntrusted } from "../limits/policy.js";
import type { FileWords, WordOrder } from "./file-words.js";
import { WordWriters } from "./word-writers.js";
import { WriterProcess } from "./writer-process.js";

/** In messages: what could not be written. */
const attempts: Readonly<Record<WordOrder["op"], string>> = {
  endTimeline: "end a timeline",
  awaitOwner: "keep a timeline",
  beginSeat: "begin the seat of a reader",
  endSeat: "free the seat of a reader",
  endWriter: "end a channel",
  ring: "ring a bell",
};

export type WordPorts = Pick<
  HubPorts<OwnedFd>,
  | "endTimeline"
  | "awaitOwner"
  | "beginSeat"
  | "endSeat"
  | "endWriter"
  | "ringBell"
  | "whenWritten"
  | "checkWritten"
>;

export class HubWords {
  readonly #files: FileWords;
  readonly #log: Log;
  /** Undefined if the hub writes itself. */
  readonly #writers: WordWriters | undefined;

  /** Takes over `files`. */
  constructor(files: FileWords, policy: HubPolicy, log: Log) {
    this.#files = files;
    this.#log = log;
    if (!servesUntrusted(policy)) return;
    this.#writers = new WordWriters({
      start: (events) => new WriterProcess(events),
      write: (file, order) => this.#tryWrite(file, order),
      log,
    });
  }

  ports(): WordPorts {
    return {
      endTimeline: (memory, byteOffset, user) => {
        this.#order(user, memory, { op: "endTimeline", byteOffset });
      },
      awaitOwner: (memory, byteOffset, user) =>
        this.#order(user, memory, { op: "awaitOwner", byteOffset }),
      beginSeat: (page, lease, user) => {
        const order = { op: "beginSeat", lease } as const;
        if (this.#writers === undefined) this.#files.write(page, order);
        else this.#writers.give(user, page, order);
      },
      endSeat: (page, user) => {
        this.#order(user, page, { op: "endSeat" });
      },
      endWriter: (control, next, user) => this.#order(user, control, { op: "endWriter", next }),
      ringBell: (bell, user) => {
        this.#order(user, bell, { op: "ring" });
      },
      whenWritten: (user, act) => this.#writers?.whenWritten(user, act) ?? false,
      checkWritten: (attempt, user) => this.#check(attempt, user),
    };
  }

  /** Calls `close` now, or once all is written into this file. */
  close(file: OwnedFd, close: () => void): void {
    if (this.#writers === undefined) close();
    else this.#writers.close(file, close);
  }

  /** @param isLast whether no other hub follows, which would write what this one has not */
  end(isLast: boolean): void {
    try {
      this.#writers?.end(isLast ? "finish" : "drop");
    } finally {
      this.#files.close();
    }
  }

  /** @returns false if there is nothing to end */
  #order(user: number, file: OwnedFd, order: WordOrder): boolean {
    if (this.#writers === undefined)
      return this.#attempt(order, () => this.#files.write(file, order)) ?? true;
    const found = this.#attempt(order, () => this.#files.look(file, order)) ?? true;
    this.#writers.give(user, file, order);
    return found;
  }

  /** Logs errors and throws none: a client can spoil its own shared memory, and nothing else. */
  #attempt(order: WordOrder, act: () => boolean): boolean | undefined {
    try {
      return act();
    } catch (error) {
      const message = `cannot ${attempts[order.op]}: ${describeError(error)}`;
      this.#log("memory-not-written", message, codeOf(error));
      return undefined;
    }
  }

  #tryWrite(file: OwnedFd, order: WordOrder): CudaIpcError | undefined {
    try {
      this.#files.write(file, order);
      return undefined;
    } catch (error) {
      if (error instanceof CudaIpcError) return error;
      return new CudaIpcError("SYSTEM_ERROR", describeError(error));
    }
  }

  #check(attempt: string, user: number): void {
    if (this.#writers === undefined) return;
    const count = this.#writers.unwrittenOf(user);
    const max = Math.min(limits.unwrittenPerUserMax, Math.floor(openFilesMax() / 8));
    if (count < max) return;
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot ${attempt}: ${count} writes into memory of user ${user} wait, ` +
        `and the limit (unwrittenPerUserMax) is ${max}`,
    );
  }
}
