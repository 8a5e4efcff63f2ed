/**
 * The hub's memory over its own death: a file beside the socket. Each record is appended before its
 * change takes effect. See journal-lines.ts for the format and journal-rewrite.ts for its length.
 * WHY no fsync: the page cache outlives the process. Only the end of the machine loses it, and then
 * the shared memory is lost as well.
 */
import { ftruncateSync } from "node:fs";
import { CudaIpcError, hasCode, messageOf } from "../../base/errors.js";
import type { Log } from "../../base/log-events.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { readFilePart } from "../../os/file-calls.js";
import { tryLock } from "../../os/file-lock.js";
import { isAt, openOwnFile } from "../../os/open-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { codeOf, describeError } from "../hub-log.js";
import { type HubRecord, type HubState, Replay, type StoredRecord } from "./hub-records.js";
import { isOfThisBoot, JournalLines } from "./journal-lines.js";
import { JournalRewrite, removeReserve, reserve } from "./journal-rewrite.js";
import { LineFile, removeFile } from "./line-file.js";

/** A journal is rewritten once it has grown by half, and by at least this much. */
const GROWTH_BYTES_MIN = 8 * 1024 * 1024;
/** How long to wait after a failed rewrite. */
const RETRY_MS = 250;

const GAINS: ReadonlySet<HubRecord["t"]> = new Set(["session", "object", "lease", "published"]);

export class Journal {
  readonly path: string;
  readonly #log: Log;
  readonly #lines: JournalLines;
  #file: LineFile;
  /** The number of the last line. */
  #number: number;
  #compactAtBytes: number;
  /** Ends that could not be written yet, as JSON. */
  #owed: string[] = [];
  #snapshot: (() => Iterable<StoredRecord>) | undefined;
  #later: (work: () => void) => void = setImmediate;
  #rewrite: JournalRewrite | undefined;
  #retryAtMs = 0;
  #isHeld = false;
  #open = true;

  private constructor(file: LineFile, lines: JournalLines, number: number, log: Log) {
    this.path = file.path;
    this.#file = file;
    this.#lines = lines;
    this.#number = number;
    this.#log = log;
    this.#compactAtBytes = nextCompaction(file.byteLength);
  }

  /**
   * Opens the journal at this path and reads what an earlier hub of this boot wrote. The caller
   * holds the hub's lock. A journal that cannot be read is refused: going on without it would lose
   * every name in it.
   * @throws HUB_UNAVAILABLE, HUB_RUNNING if another hub still writes to it
   */
  static open(
    path: string,
    bootId: string,
    log: Log,
  ): { readonly journal: Journal; readonly state: HubState } {
    return acquireIn((scope) => {
      const lines = new JournalLines(bootId);
      const fd = openFile(path);
      scope.own(fd, (fd) => fd.close());
      const replay = new Replay();
      const found = attemptRead(path, () =>
        lines.read(
          (into, at) => readFilePart(fd, into, at),
          (record) => replay.take(record),
        ),
      );
      const isOurs = isOfThisBoot(path, found, lines, bootId, log);
      const byteLength = isOurs ? found.wholeBytes : 0;
      if (byteLength < found.wholeBytes || found.isTorn) ftruncateSync(fd.number, byteLength);
      const file = new LineFile(path, fd, byteLength);
      if (byteLength === 0) file.append(`${lines.head}\n`);
      const journal = new Journal(file, lines, found.lastNumber, log);
      const state = replay.finish();
      if (found.damaged > 0 || (isOurs && found.head !== lines.head)) journal.#compactAtBytes = 0;
      else journal.#compactAtBytes = nextCompaction(bytesOfLive(state, byteLength, found.records));
      reserve(path);
      return { journal, state };
    });
  }

  /**
   * Starts rewriting it when it gets long, and after a full disk as soon as there is room.
   * @param snapshot the whole state, read from live tables that may change meanwhile
   * @param later runs the next slice in another turn of the event loop
   */
  keepShort(
    snapshot: () => Iterable<StoredRecord>,
    later: (work: () => void) => void = setImmediate,
  ): void {
    this.#snapshot = snapshot;
    this.#later = later;
  }

  /** @throws SystemError if a new fact cannot be written. Ends are written later. */
  append(records: readonly HubRecord[]): void {
    if (this.#isHeld) return;
    const json = records.map((record) => JSON.stringify(record));
    const isGain = records.some(({ t }) => GAINS.has(t));
    const owedWait = this.#owedWait;
    if (owedWait && !isGain) {
      this.#owed.push(...json);
      return;
    }
    try {
      this.#write(owedWait ? json : [...this.#owed, ...json]);
      if (!owedWait) this.#owed = [];
    } catch (error) {
      // WHY not always at once: a disk stays full for a while, and others must be served meanwhile.
      if (performance.now() >= this.#retryAtMs) this.rewrite();
      if (isGain) throw error;
      // Only the first: every end would log one, and the log may be on the same full disk.
      if (this.#owed.length === 0)
        this.#notWritten(
          error,
          `${describeError(error)}; what ends is written down as soon as that can be done`,
        );
      this.#owed.push(...json);
    }
    if (this.#file.byteLength > this.#compactAtBytes) this.rewrite();
  }

  /** Whether it is still at its path. */
  get isInPlace(): boolean {
    return isAt(this.path, this.#file.fd);
  }

  get isRewriting(): boolean {
    return this.#rewrite !== undefined;
  }

  /** Stops writing, because another hub has the path. */
  hold(): void {
    this.#isHeld = true;
    this.#rewrite?.abandon();
    this.#rewrite = undefined;
  }

  /** Ends `hold` and rewrites everything. */
  goOn(): void {
    this.#isHeld = false;
    this.rewrite();
  }

  /** Starts a rewrite unless one is running. */
  rewrite(): void {
    if (this.#isHeld) return;
    if (this.#rewrite !== undefined || this.#snapshot === undefined) return;
    try {
      this.#rewrite = JournalRewrite.begin(this.path, this.#lines, this.#snapshot());
    } catch (error) {
      this.#gaveUp(error);
      return;
    }
    this.#later(() => this.#slice());
  }

  /** Writes the owed ends now, if that is possible. */
  settle(): void {
    if (this.#owed.length === 0 && !this.#file.isTorn) return;
    this.rewrite();
    while (this.#rewrite !== undefined) this.#slice();
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const rewrite = this.#rewrite;
    this.#rewrite = undefined;
    releaseAll([() => rewrite?.abandon(), () => this.#file.close()]);
  }

  /** Removes it for good. A file that another hub put in its place stays. */
  remove(): void {
    if (!this.#open) return;
    const isOwn = isAt(this.path, this.#file.fd);
    this.close();
    if (!isOwn) return;
    removeFile(this.path);
    removeReserve(this.path);
  }

  /**
   * Whether the owed ends are not to be written now. WHY: on a full disk each further end would try
   * all of them again, and 10,000 ends would hold the hub up for minutes.
   */
  get #owedWait(): boolean {
    if (this.#owed.length === 0) return false;
    return this.#rewrite !== undefined || performance.now() < this.#retryAtMs;
  }

  #slice(): void {
    const rewrite = this.#rewrite;
    if (rewrite === undefined) return;
    try {
      if (!rewrite.step()) {
        this.#later(() => this.#slice());
        return;
      }
      const { file, number } = rewrite.finish(this.#owed);
      const earlier = this.#file;
      [this.#file, this.#number, this.#owed] = [file, number, []];
      this.#rewrite = undefined;
      this.#compactAtBytes = nextCompaction(file.byteLength);
      earlier.close();
      reserve(this.path);
    } catch (error) {
      this.#rewrite = undefined;
      this.#gaveUp(error);
      rewrite.abandon();
    }
  }

  #gaveUp(error: unknown): void {
    this.#retryAtMs = performance.now() + RETRY_MS;
    this.#compactAtBytes = nextCompaction(this.#file.byteLength);
    this.#notWritten(error, `cannot write the journal anew: ${describeError(error)}`);
  }

  #notWritten(error: unknown, message: string): void {
    this.#log("journal-not-written", message, { path: this.path, ...codeOf(error) });
  }

  #write(records: readonly string[]): void {
    let text = "";
    let number = this.#number;
    for (const json of records) {
      number += 1;
      text += this.#lines.encode(number, json);
    }
    try {
      this.#file.append(text);
    } catch (error) {
      // Some of these lines may be in the file. No other line may get their numbers.
      if (this.#file.isTorn) this.#number = number;
      throw error;
    }
    this.#number = number;
    this.#rewrite?.add(records);
  }
}

/**
 * Estimates the length that a rewritten journal would have. WHY not the file's own length: hubs
 * that are killed early would never rewrite it, and each would start more slowly than the last.
 */
function bytesOfLive(state: HubState, byteLength: number, records: number): number {
  // An object has a record for its creation and one for its publication.
  const live = state.sessions.size + 2 * state.objects.size + state.leases.size;
  return records === 0 ? byteLength : byteLength * Math.min(1, live / records);
}

function nextCompaction(byteLength: number): number {
  return byteLength + Math.max(GROWTH_BYTES_MIN, byteLength / 2);
}

function openFile(path: string): OwnedFd {
  return acquireIn((scope) => {
    const fd = scope.own(
      attemptRead(path, () => openOwnFile(path)),
      (fd) => fd.close(),
    );
    if (tryLock(fd)) return fd;
    // Somebody may have removed the lock and socket of a hub that still runs.
    throw new CudaIpcError(
      "HUB_RUNNING",
      `Cannot start a hub: another process still writes to "${path}"`,
    );
  });
}

function attemptRead<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    if (hasCode(error, "TOO_MANY_FDS")) throw error;
    const remedy =
      "An earlier hub kept its names there: make it readable, " +
      "or move it away to start without those names.";
    const found = messageOf(error);
    throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot read "${path}": ${found}. ${remedy}`, {
      cause: error,
    });
  }
}
