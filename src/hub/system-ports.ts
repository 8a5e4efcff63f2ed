/** The ports of the hub's core that are calls of the system and nothing else. */
import { isBell, ringBell } from "../os/bell.js";
import { wordsFrom } from "../os/file-calls.js";
import { closeMemory, isDeviceMemory } from "../os/foreign-fd.js";
import {
  closeSeals,
  inspectMemoryFile,
  reopenReadOnly,
  reopenWritable,
  restrictMemoryFile,
} from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { beginPlace, endPlace } from "../ring/channel-end.js";
import { poisonFile } from "../wire/timeline-line.js";
import { describeError } from "./client-connections.js";
import { endWriterBy, wordsOf } from "./end-channel.js";
import type { HubPorts } from "./ports.js";

export type SystemPorts = Pick<
  HubPorts<OwnedFd>,
  | "closeFd"
  | "inspectMemoryFile"
  | "restrictMemoryFile"
  | "reopenReadOnly"
  | "reopenWritable"
  | "endTimeline"
  | "isDeviceMemory"
  | "isBell"
  | "closeSeals"
  | "beginPlace"
  | "endPlace"
  | "endWriter"
  | "ringBell"
  | "now"
  | "monotonicMs"
>;

export function systemPorts(log: (line: string) => void): SystemPorts {
  return {
    closeFd: (fd) => closeFd(fd, log),
    inspectMemoryFile,
    restrictMemoryFile,
    reopenReadOnly,
    reopenWritable,
    endTimeline: (memory, byteOffset) => {
      attempt("end a timeline", () => poisonFile(wordsFrom(memory, byteOffset)), log);
    },
    isDeviceMemory,
    isBell,
    closeSeals,
    beginPlace: (page, lease) => beginPlace(wordsOf(page), lease),
    endPlace: (page) => {
      attempt("end the place of a reader", () => endPlace(wordsOf(page)), log);
    },
    endWriter: (control, next) => attempt("end a channel", () => endWriterBy(control, next), log) ?? true,
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
