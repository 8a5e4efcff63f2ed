/** The ports of the hub's core that are plain system calls and writes to shared memory. */
import type { Log } from "../../base/log-events.js";
import { awaitOwnerInFile, LINE_BYTES, poisonFile } from "../../base/timeline-line.js";
import { isBell, ringBell } from "../../os/bell.js";
import { closeMemory, isDeviceMemory } from "../../os/foreign-fd.js";
import { inspectMemoryFile, reopenReadOnly, reopenWritable } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { OwnMemory, UntrustedWords } from "../../os/untrusted-words.js";
import { beginSeat, endSeat, endWriter, type WithoutWriter } from "../../ring/channel-end.js";
import { HEADERS_AT, PAGE_BYTES } from "../../ring/channel-layout.js";
import type { HubPorts } from "../core/ports.js";
import { codeOf, describeError } from "../hub-log.js";

export type SystemPorts = Pick<
  HubPorts<OwnedFd>,
  | "closeFd"
  | "inspectMemoryFile"
  | "reopenReadOnly"
  | "reopenWritable"
  | "endTimeline"
  | "awaitOwner"
  | "isDeviceMemory"
  | "isBell"
  | "beginSeat"
  | "endSeat"
  | "endWriter"
  | "ringBell"
  | "now"
  | "monotonicMs"
>;

export function systemPorts(words: FileWords, log: Log): SystemPorts {
  return {
    closeFd: (fd) => closeFd(fd, log),
    inspectMemoryFile,
    reopenReadOnly,
    reopenWritable,
    endTimeline: (memory, byteOffset) => {
      attempt("end a timeline", () => words.endTimeline(memory, byteOffset), log);
    },
    awaitOwner: (memory, byteOffset) =>
      attempt("keep a timeline", () => words.awaitOwner(memory, byteOffset), log) ?? true,
    isDeviceMemory,
    isBell,
    beginSeat: (page, lease) => words.beginSeat(page, lease),
    endSeat: (page) => {
      attempt("free the seat of a reader", () => words.endSeat(page), log);
    },
    endWriter: (control, next) =>
      attempt("end a channel", () => words.endWriter(control, next), log) ?? true,
    ringBell: (bell) => {
      attempt("ring a bell", () => ringBell(bell), log);
    },
    now: wallClockMs,
    monotonicMs: () => performance.now(),
  };
}

/**
 * The hub's writes to the memory files of timelines and channels. Any client may have made these
 * files. Their sizes were checked and are sealed, so the writes stay within them.
 */
export class FileWords {
  // Opened at the start: with a full table of open files the hub must still end what a dead client
  // owned.
  readonly #ownMemory = new OwnMemory();

  endTimeline(memory: OwnedFd, byteOffset: number): void {
    using line = this.#wordsOf(memory, LINE_BYTES, byteOffset);
    poisonFile(line);
  }

  awaitOwner(memory: OwnedFd, byteOffset: number): boolean {
    using line = this.#wordsOf(memory, LINE_BYTES, byteOffset);
    return awaitOwnerInFile(line);
  }

  beginSeat(page: OwnedFd, lease: number): void {
    using words = this.#wordsOf(page, PAGE_BYTES);
    beginSeat(words, lease);
  }

  endSeat(page: OwnedFd): void {
    using words = this.#wordsOf(page, PAGE_BYTES);
    endSeat(words);
  }

  /** Also works through the read-only descriptor of a reader if the system can reopen it. */
  endWriter(control: OwnedFd, next: WithoutWriter): boolean {
    using twin = inspectMemoryFile(control).writable ? undefined : reopenWritable(control);
    using words = this.#wordsOf(twin ?? control, HEADERS_AT);
    return endWriter(words, next);
  }

  close(): void {
    this.#ownMemory.close();
  }

  #wordsOf(fd: OwnedFd, byteLength: number, byteOffset = 0): UntrustedWords {
    return new UntrustedWords({ fd, byteOffset, byteLength }, this.#ownMemory);
  }
}

/** WHY not negative: schemas refuse it, and a machine without a clock may start before 1970. */
export function wallClockMs(): number {
  return Math.max(0, Date.now());
}

/** Logs errors and throws none: the caller may be in the middle of a change for other clients. */
function closeFd(fd: OwnedFd, log: Log): void {
  try {
    closeMemory(fd);
  } catch (error) {
    log("internal-error", `cannot close a descriptor: ${describeError(error)}`, codeOf(error));
  }
}

/** Logs errors and throws none: a client can spoil its own shared memory, and nothing else. */
function attempt<T>(what: string, act: () => T, log: Log): T | undefined {
  try {
    return act();
  } catch (error) {
    log("memory-not-written", `cannot ${what}: ${describeError(error)}`, codeOf(error));
    return undefined;
  }
}
