/**
 * The hub's memory over its own death: a file beside the socket to which each record is appended before what it says takes effect.
 * One line of JSON each, after a head that names the boot: what processes held before the machine started again is nobody's.
 * WHY never synchronised: the pages of a file outlast the process that wrote them; only the end of the machine loses them, and then all.
 */
import { ftruncateSync, readFileSync, renameSync, unlinkSync, writeSync } from "node:fs";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { openFile } from "../os/open-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { fromNodeError } from "../os/system-error.js";
import { describeError } from "./client-connections.js";
import { checkRecord, type HubRecord, type HubState, recordsOf, replay } from "./hub-records.js";

const VERSION = 1;
/** A file is written anew once it has grown to so many times what it was when it was new. */
const GROWTH_MAX = 4;
const COMPACTION_BYTES_MIN = 8 * 1024 * 1024;

const GAINS: ReadonlySet<HubRecord["t"]> = new Set(["session", "object", "lease", "published"]);

export class Journal {
  readonly path: string;
  readonly #bootId: string;
  readonly #log: (line: string) => void;
  #file: OwnedFd;
  #byteLength: number;
  #compactAtBytes: number;
  /** Ends that could not be written down yet. */
  #owed = "";
  /** Whether it ends in half a record. */
  #torn = false;

  private constructor(path: string, bootId: string, file: OwnedFd, byteLength: number, log: (line: string) => void) {
    this.path = path;
    this.#bootId = bootId;
    this.#file = file;
    this.#byteLength = byteLength;
    this.#compactAtBytes = Math.max(COMPACTION_BYTES_MIN, GROWTH_MAX * byteLength);
    this.#log = log;
  }

  /**
   * What an earlier hub of this boot wrote at this path; empty where there is nothing of the kind. The caller holds the hub's lock.
   * WHY refused where it cannot be read: to go on without it would lose every name that is in it, and the file with the next write.
   * @throws HUB_UNAVAILABLE
   */
  static read(path: string, bootId: string, log: (line: string) => void): HubState {
    const text = readText(path);
    const [head = "", ...lines] = text.split("\n");
    // WHY the last is left out: it is empty, or what its writer did not live to finish.
    const whole = lines.slice(0, -1);
    if (head === headLine(bootId)) return replay(records(path, whole, log));
    if (text !== "")
      log(`does not use ${path}: it is of another boot or another version, or its first line is damaged`);
    return replay([]);
  }

  /** A new file that says just this, in the place of what was there. */
  static create(path: string, bootId: string, state: HubState, log: (line: string) => void): Journal {
    const { file, byteLength } = writeAnew(path, bootId, state);
    return new Journal(path, bootId, file, byteLength, log);
  }

  /** @throws SystemError where something is gained and could not be written; ends are written later then */
  append(records: readonly HubRecord[]): void {
    const text = `${this.#owed}${records.map((record) => `${JSON.stringify(record)}\n`).join("")}`;
    try {
      this.#write(text);
      this.#owed = "";
    } catch (error) {
      if (records.some(({ t }) => GAINS.has(t))) throw error;
      // WHY only the first: there is one for each end, and the log may lie on the same full disk.
      if (this.#owed === "")
        this.#log(`${describeError(error)}; what ends is written down as soon as that can be done`);
      this.#owed = text;
    }
  }

  /** Whether it has grown enough to be worth a `compact`. */
  get isLong(): boolean {
    return this.#byteLength > this.#compactAtBytes;
  }

  /** Sees to it that nothing is owed any more, as far as that can be done now. */
  settle(state: HubState): void {
    if (this.#owed !== "" || this.#torn) this.compact(state);
  }

  /** Writes it anew, with what matters still. */
  compact(state: HubState): void {
    try {
      const { file, byteLength } = writeAnew(this.path, this.#bootId, state);
      const earlier = this.#file;
      this.#file = file;
      this.#byteLength = byteLength;
      this.#compactAtBytes = Math.max(COMPACTION_BYTES_MIN, GROWTH_MAX * byteLength);
      this.#owed = "";
      this.#torn = false;
      earlier.close();
    } catch (error) {
      this.#compactAtBytes = 2 * this.#byteLength;
      this.#log(`cannot write the journal anew: ${describeError(error)}`);
    }
  }

  close(): void {
    this.#file.close();
  }

  /** Ends it for good: nothing is left for a next hub. */
  remove(): void {
    this.close();
    removeFile(this.path);
  }

  #write(text: string): void {
    // WHY: half a record would spoil the one that is written after it; on a line of its own it is left out alone.
    const bytes = Buffer.from(this.#torn ? `\n${text}` : text);
    let written = 0;
    try {
      while (written < bytes.byteLength) written += writeSync(this.#file.number, bytes, written);
    } catch (error) {
      if (written > 0) this.#takeBack(written);
      throw fromNodeError(`write to ${this.path}`, error);
    }
    this.#byteLength += bytes.byteLength;
    this.#torn = false;
  }

  #takeBack(written: number): void {
    try {
      ftruncateSync(this.#file.number, this.#byteLength);
    } catch (error) {
      this.#torn = true;
      this.#byteLength += written;
      this.#log(`cannot take back what was half written to ${this.path}: ${describeError(error)}`);
    }
  }
}

function headLine(bootId: string): string {
  return JSON.stringify({ t: "journal", version: VERSION, boot: bootId });
}

function* records(path: string, lines: readonly string[], log: (line: string) => void): IterableIterator<HubRecord> {
  for (const [index, line] of lines.entries()) {
    try {
      yield checkRecord(`line ${index + 2} of ${path}`, JSON.parse(line));
    } catch (error) {
      log(`left out line ${index + 2} of ${path}: ${describeError(error)}`);
    }
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    const failed = fromNodeError(`read ${path}`, error);
    const found = failed instanceof Error ? failed.message : String(failed);
    throw new CudaIpcError(
      "HUB_UNAVAILABLE",
      `${found}; an earlier hub kept its names there: make it readable, or move it away to start without those names`,
      { cause: error },
    );
  }
}

function writeAnew(
  path: string,
  bootId: string,
  state: HubState,
): { readonly file: OwnedFd; readonly byteLength: number } {
  const temporary = `${path}.new`;
  const lines = [headLine(bootId), ...Array.from(recordsOf(state), (record) => JSON.stringify(record)), ""];
  const bytes = Buffer.from(lines.join("\n"));
  removeFile(temporary);
  return acquireIn((scope) => {
    const file = scope.own(openFile(temporary, "append"), (file) => file.close());
    scope.defer(() => removeFile(temporary));
    try {
      for (let written = 0; written < bytes.byteLength; ) written += writeSync(file.number, bytes, written);
      renameSync(temporary, path);
    } catch (error) {
      throw fromNodeError(`write ${path}`, error);
    }
    return { file, byteLength: bytes.byteLength };
  });
}

function removeFile(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT"))
      throw fromNodeError(`remove ${path}`, error);
  }
}
