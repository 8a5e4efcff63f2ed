/** The ports of the hub's core that are calls of the system and nothing else. */
import { isBell, ringBell } from "../os/bell.js";
import { closeMemory, isDeviceMemory } from "../os/foreign-fd.js";
import { inspectMemoryFile, reopenReadOnly, reopenWritable } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { describeError } from "./client-connections.js";
import type { FileWords } from "./file-words.js";
import type { HubPorts } from "./ports.js";

export type SystemPorts = Pick<
  HubPorts<OwnedFd>,
  | "closeFd"
  | "inspectMemoryFile"
  | "reopenReadOnly"
  | "reopenWritable"
  | "endTimeline"
  | "isDeviceMemory"
  | "isBell"
  | "beginPlace"
  | "endPlace"
  | "endWriter"
  | "ringBell"
  | "now"
  | "monotonicMs"
>;

export function systemPorts(words: FileWords, log: (line: string) => void): SystemPorts {
  return {
    closeFd: (fd) => closeFd(fd, log),
    inspectMemoryFile,
    reopenReadOnly,
    reopenWritable,
    endTimeline: (memory, byteOffset) => {
      attempt("end a timeline", () => words.endTimeline(memory, byteOffset), log);
    },
    isDeviceMemory,
    isBell,
    beginPlace: (page, lease) => words.beginPlace(page, lease),
    endPlace: (page) => {
      attempt("end the place of a reader", () => words.endPlace(page), log);
    },
    endWriter: (control, next) => attempt("end a channel", () => words.endWriter(control, next), log) ?? true,
    ringBell: (bell) => {
      attempt("ring a bell", () => ringBell(bell), log);
    },
    now: () => Date.now(),
    monotonicMs: () => performance.now(),
  };
}

/** WHY nothing is thrown: it is closed all the same, and what the core is in the middle of concerns others too. */
function closeFd(fd: OwnedFd, log: (line: string) => void): void {
  try {
    closeMemory(fd);
  } catch (error) {
    log(describeError(error));
  }
}

/** WHY nothing is thrown: memory of others can be in any state since, which spoils what they share and nothing else. */
function attempt<T>(what: string, act: () => T, log: (line: string) => void): T | undefined {
  try {
    return act();
  } catch (error) {
    log(`cannot ${what}: ${describeError(error)}`);
    return undefined;
  }
}
