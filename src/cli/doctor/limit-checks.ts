/** Limits of the system that may affect sharing. Read, not tried. */
import { sizeWords } from "../terminal/words.js";
import { type Check, fact } from "./check.js";
import type { Surroundings } from "./surroundings.js";

/** Node opens about twenty files, and each array on the host needs one. */
const FEW_FILES = 1024;

/** Each process that wakes others takes one. */
const FEW_EVENTS = 256;

export function limitChecks(surroundings: Surroundings): Check[] {
  const limits = surroundings.text("/proc/self/limits");
  return [
    openFilesCheck(limits),
    lockedMemoryCheck(limits),
    asyncCheck(surroundings),
    ...noexecChecks(surroundings),
  ];
}

/** The soft limit of a line of /proc/self/limits. */
function softLimit(limits: string | undefined, name: string): string | undefined {
  return new RegExp(`^${name}\\s+(\\S+)`, "m").exec(limits ?? "")?.[1];
}

function openFilesCheck(limits: string | undefined): Check {
  const files = softLimit(limits, "Max open files");
  const notes = ["each array on the host needs one in this process, and one or two in the hub"];
  if (files === undefined) return fact("open files", "the limit cannot be read", { notes });
  const few = Number(files) < FEW_FILES;
  const toDo =
    "Raise the limit with ulimit -n, in a container with --ulimit nofile=, and restart the hub.";
  return fact("open files", `this process may have ${files}`, few ? { notes, toDo } : { notes });
}

function lockedMemoryCheck(limits: string | undefined): Check {
  const locked = softLimit(limits, "Max locked memory");
  const size =
    locked === undefined || Number.isNaN(Number(locked)) ? locked : sizeWords(Number(locked));
  const notes = [
    "memory that the CUDA driver pins should not count, " +
      "because the driver's open part ignores this limit (not tried)",
  ];
  return fact("locked memory", size === undefined ? "the limit cannot be read" : `limit: ${size}`, {
    notes,
  });
}

/** The processes of all users share this limit. */
function asyncCheck(surroundings: Surroundings): Check {
  const number = (name: string) => Number(surroundings.text(`/proc/sys/fs/${name}`) ?? Number.NaN);
  const [used, limit] = [number("aio-nr"), number("aio-max-nr")];
  const notes = [
    "channels wake processes by it; without it a hostile process can delay each wake-up " +
      "by a few milliseconds",
  ];
  if (Number.isNaN(used) || Number.isNaN(limit))
    return fact("asynchronous I/O", "the limit cannot be read", { notes });
  const words = `${used} of ${limit} events are taken`;
  if (limit - used >= FEW_EVENTS) return fact("asynchronous I/O", words);
  const toDo = "Raise the limit: sysctl fs.aio-max-nr=1048576.";
  return fact("asynchronous I/O", words, { notes, toDo });
}

/** Empty if executable memory files are allowed, or on kernels before Linux 6.3. */
function noexecChecks(surroundings: Surroundings): Check[] {
  if (surroundings.text("/proc/sys/vm/memfd_noexec") !== "2") return [];
  const notes = [
    "cuda-ipc creates them with MFD_NOEXEC_SEAL; " +
      "a client in another language must do the same, or it gets EACCES",
  ];
  return [fact("memfd_noexec", "2: memory files must not be executable", { notes })];
}
