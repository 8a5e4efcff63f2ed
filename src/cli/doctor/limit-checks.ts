/** Limits of the system that sharing may meet. Read, not tried. */
import { sizeWords } from "../words.js";
import { type Check, fact } from "./check.js";
import type { Surroundings } from "./surroundings.js";

/** Fewer are soon used up: Node has some twenty, each array of the host takes one. */
const FEW_FILES = 1024;

export function limitChecks(surroundings: Surroundings): Check[] {
  const limits = surroundings.text("/proc/self/limits");
  return [openFilesCheck(limits), lockedMemoryCheck(limits), ...noexecChecks(surroundings)];
}

/** The soft limit of a line of /proc/self/limits. */
function softLimit(limits: string | undefined, name: string): string | undefined {
  return new RegExp(`^${name}\\s+(\\S+)`, "m").exec(limits ?? "")?.[1];
}

function openFilesCheck(limits: string | undefined): Check {
  const files = softLimit(limits, "Max open files");
  const notes = ["each array made on the host takes one here, and one or two in the hub"];
  if (files === undefined) return fact("open files", "the limit cannot be read", { notes });
  const few = Number(files) < FEW_FILES;
  const toDo = "Raise it with ulimit -n, in a container with --ulimit nofile=, and start the hub again.";
  return fact("open files", `this process may have ${files}`, few ? { notes, toDo } : { notes });
}

function lockedMemoryCheck(limits: string | undefined): Check {
  const locked = softLimit(limits, "Max locked memory");
  const size = locked === undefined || Number.isNaN(Number(locked)) ? locked : sizeWords(Number(locked));
  const notes = [
    "memory that the CUDA driver pins should not count: the open part of the driver does not look at the limit (not tried)",
  ];
  return fact("locked memory", size === undefined ? "the limit cannot be read" : `limit: ${size}`, { notes });
}

/** Nothing where every program may make memory files, or where the kernel has no such rule (before Linux 6.3). */
function noexecChecks(surroundings: Surroundings): Check[] {
  if (surroundings.text("/proc/sys/vm/memfd_noexec") !== "2") return [];
  const notes = [
    "made here with MFD_NOEXEC_SEAL, as this demands; a client in another language must do the same, or gets EACCES",
  ];
  return [fact("memfd_noexec", "2: memory files must be made so that they cannot be executed", { notes })];
}
