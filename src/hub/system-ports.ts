/** The ports of the hub's core that are calls of the system and nothing else. */
import { withWords } from "../os/mapped-words.js";
import { inspectMemoryFile, reopenReadOnly, reopenWritable, restrictMemoryFile } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { lineAt, poison } from "../wire/timeline-line.js";
import { describeError } from "./client-connections.js";
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
    closeFd: (fd) => fd.close(),
    inspectMemoryFile,
    restrictMemoryFile,
    reopenReadOnly,
    reopenWritable,
    endTimeline: (memory, byteOffset) => endTimeline(memory, byteOffset, log),
    now: () => Date.now(),
    monotonicMs: () => performance.now(),
  };
}

/** SAFETY: the place was checked against the sealed memory when the timeline was created. */
function endTimeline(memory: OwnedFd, byteOffset: number, log: (line: string) => void): void {
  try {
    withWords(memory, (words) => poison(lineAt(words, byteOffset)));
  } catch (error) {
    // WHY not thrown: an owner can have sealed its memory against writing since; that spoils its own timeline and nothing else.
    log(`cannot end a timeline: ${describeError(error)}`);
  }
}
