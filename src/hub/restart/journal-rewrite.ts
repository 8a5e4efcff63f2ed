/**
 * Rewrites a journal beside the old one, a slice at a time, while the old one goes on.
 *
 *   head | live tables, in slices | the tail: all records since the rewrite began, in order
 *
 * A table may change between two slices. Each change is also in the tail, which repeats or ends
 * what the first part says. So the order of changes and slices does not matter. The old journal
 * stays complete until the rename.
 */
import { closeSync, ftruncateSync, openSync, renameSync, writeSync } from "node:fs";
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { tryLockFile } from "../../os/file-lock.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { fromNodeError } from "../../os/system-error.js";
import type { StoredRecord } from "./hub-records.js";
import type { JournalLines } from "./journal-lines.js";
import { LineFile, removeFile } from "./line-file.js";

const SLICE_MS = 2;
const LINES_PER_WRITE = 64;
/** The room that is kept for a rewrite on a full disk: some hundred records. */
const RESERVE_BYTES = 64 * 1024;

export class JournalRewrite {
  readonly #path: string;
  readonly #file: LineFile;
  readonly #lines: JournalLines;
  readonly #snapshot: Iterator<StoredRecord>;
  #number = 0;
  /** Records since the rewrite began, as JSON. Those from `#tailAt` on are not written yet. */
  #tail: string[] = [];
  #tailAt = 0;
  #isSnapshotDone = false;

  private constructor(
    path: string,
    file: LineFile,
    lines: JournalLines,
    snapshot: Iterator<StoredRecord>,
  ) {
    this.#path = path;
    this.#file = file;
    this.#lines = lines;
    this.#snapshot = snapshot;
  }

  /** @param snapshot read a slice at a time from live tables */
  static begin(
    path: string,
    lines: JournalLines,
    snapshot: Iterable<StoredRecord>,
  ): JournalRewrite {
    return acquireIn((scope) => {
      const beside = besideOf(path);
      // WHY the same file: on a full disk its blocks are all there is.
      const fd = tryLockFile(beside);
      if (fd === undefined)
        throw new CudaIpcError(
          "HUB_RUNNING",
          `Cannot write "${beside}": another hub writes there.`,
        );
      const file = scope.own(new LineFile(beside, fd, 0), (file) => file.close());
      file.append(`${lines.head}\n`);
      return new JournalRewrite(path, file, lines, snapshot[Symbol.iterator]());
    });
  }

  /** Adds records that the old journal has just got. */
  add(records: readonly string[]): void {
    for (const record of records) this.#tail.push(record);
  }

  /** Writes for so long, and at least one batch. Returns true if nothing is left to write. */
  step(sliceMs = SLICE_MS): boolean {
    const endMs = performance.now() + sliceMs;
    do {
      const batch = this.#nextBatch();
      if (batch === "") return true;
      this.#file.append(batch);
    } while (performance.now() < endMs);
    return false;
  }

  /**
   * Replaces the old file by the new one, with these last records. The caller takes over the file.
   */
  finish(owed: readonly string[]): { readonly file: LineFile; readonly number: number } {
    this.add(owed);
    while (!this.step());
    this.#file.trim();
    try {
      renameSync(this.#file.path, this.#path);
    } catch (error) {
      throw fromNodeError(`write ${this.#path}`, error);
    }
    return {
      file: new LineFile(this.#path, this.#file.fd, this.#file.byteLength),
      number: this.#number,
    };
  }

  /** Keeps the old journal. The reserved blocks stay for the next attempt. */
  abandon(): void {
    releaseAll([
      () => (this.#file.byteLength > RESERVE_BYTES ? truncate(this.#file.fd) : undefined),
      () => this.#file.close(),
    ]);
  }

  #nextBatch(): string {
    let text = "";
    for (let count = 0; count < LINES_PER_WRITE; count += 1) {
      const json = this.#next();
      if (json === undefined) break;
      this.#number += 1;
      text += this.#lines.encode(this.#number, json);
    }
    return text;
  }

  #next(): string | undefined {
    if (!this.#isSnapshotDone) {
      const { value, done } = this.#snapshot.next();
      if (!done) return JSON.stringify(value);
      this.#isSnapshotDone = true;
    }
    if (this.#tailAt === this.#tail.length) return undefined;
    this.#tailAt += 1;
    return this.#tail[this.#tailAt - 1];
  }
}

function truncate(fd: OwnedFd): void {
  try {
    ftruncateSync(fd.number, RESERVE_BYTES);
  } catch (error) {
    throw fromNodeError("shorten a journal that was not finished", error);
  }
}

function besideOf(path: string): string {
  return `${path}.new`;
}

/**
 * Reserves room for the next rewrite, so that a full disk can overwrite this file in place. Ignores
 * errors: without the reserve a rewrite on a full disk fails and is tried again.
 */
export function reserve(path: string): void {
  const beside = besideOf(path);
  try {
    removeFile(beside);
    const fd = openSync(beside, "wx", 0o600);
    try {
      writeSync(fd, new Uint8Array(RESERVE_BYTES));
    } finally {
      closeSync(fd);
    }
  } catch {
    // See above.
  }
}

export function removeReserve(path: string): void {
  removeFile(besideOf(path));
}
