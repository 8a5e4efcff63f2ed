/** The ports of the hub's core that are calls of the system and nothing else. */
import { inspectMemoryFile, reopenReadOnly, reopenWritable, restrictMemoryFile } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { describeError } from "./client-connections.js";
import { endTimeline } from "./end-timeline.js";
import type { HubPorts } from "./ports.js";

export type SystemPorts = Pick<
  HubPorts<OwnedFd>,
  | "closeFd"
  | "inspectMemoryFile"
  | "restrictMemoryFile"
  | "reopenReadOnly"
  | "reopenWritable"
  | "endTimeline"
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
    endTimeline: (memory, byteOffset) => tryEndTimeline(memory, byteOffset, log),
    now: () => Date.now(),
    monotonicMs: () => performance.now(),
  };
}

/** WHY nothing is thrown: it is closed all the same, and what the core is in the middle of concerns others too. */
function closeFd(fd: OwnedFd, log: (line: string) => void): void {
  try {
    fd.close();
  } catch (error) {
    log(describeError(error));
  }
}

function tryEndTimeline(memory: OwnedFd, byteOffset: number, log: (line: string) => void): void {
  try {
    endTimeline(memory, byteOffset);
  } catch (error) {
    // WHY not thrown: an owner can have sealed its memory against writing since; that spoils its own timeline and nothing else.
    log(`cannot end a timeline: ${describeError(error)}`);
  }
}
