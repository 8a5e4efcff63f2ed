/** The ports of the hub's core that are plain system calls and writes to shared memory. */
import type { Log } from "../../base/log-events.js";
import { isBell } from "../../os/bell.js";
import { closeMemory, isDeviceMemory } from "../../os/foreign-fd.js";
import { inspectMemoryFile, reopenReadOnly, reopenWritable } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { HubPorts } from "../core/ports.js";
import { codeOf, describeError } from "../hub-log.js";
import type { HubWords, WordPorts } from "../words/hub-words.js";

export type SystemPorts = WordPorts &
  Pick<
    HubPorts<OwnedFd>,
    | "closeFd"
    | "inspectMemoryFile"
    | "reopenReadOnly"
    | "reopenWritable"
    | "isDeviceMemory"
    | "isBell"
    | "now"
    | "monotonicMs"
  >;

export function systemPorts(words: HubWords, log: Log): SystemPorts {
  return {
    ...words.ports(),
    closeFd: (fd) => words.close(fd, () => closeFd(fd, log)),
    inspectMemoryFile,
    reopenReadOnly,
    reopenWritable,
    isDeviceMemory,
    isBell,
    now: wallClockMs,
    monotonicMs: () => performance.now(),
  };
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
