/**
 * Descriptors that this process was started with: by systemd (sd_listen_fds(3)) or by the hub's
 * keeper. The keeper uses a variable of its own. It then needs no shell to put the new pid into
 * LISTEN_PID. Its names are in a file: Linux takes at most 2 MiB for all variables of a process.
 */
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { libc } from "../ffi/libc.js";
import { readFilePart, statFile } from "./file-calls.js";
import { createConstantFile } from "./memory-file.js";
import { OwnedFd } from "./owned-fd.js";
import { systemError } from "./system-error.js";

export type Environment = Record<string, string | undefined>;

export interface ReceivedFd {
  /** The name in the unit or the store; not unique. */
  readonly name: string;
  readonly fd: OwnedFd;
}

const F_GETFD = 1;
/** The number of the first one; the others follow. */
const FIRST_FD = 3;
/** systemd's own name for descriptors without a name. */
const UNNAMED = "unknown";
const KEPT_COUNT = "CUDA_IPC_KEPT_FDS";
const BETWEEN_NAMES = ":";

/**
 * The descriptors that the service manager passed to this process, in its order. Returns none if
 * they are for another process. The caller owns them. Removes the variables, so a child or a second
 * call finds none.
 * Call it only at the start of a process: later, other files have the numbers from 3.
 * @throws INVALID_MESSAGE if the variables are invalid; SYSTEM_ERROR if a descriptor is missing
 */
export function receivedFds(
  env: Environment = process.env,
  pid: number = process.pid,
): ReceivedFd[] {
  const { LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES } = env;
  for (const name of ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]) delete env[name];
  if (LISTEN_PID === undefined || LISTEN_FDS === undefined) return [];
  if (wholeNumber("LISTEN_PID", LISTEN_PID) !== pid) return [];
  return passed(wholeNumber("LISTEN_FDS", LISTEN_FDS), "LISTEN_FDS", LISTEN_FDNAMES?.split(":"));
}

/** As `receivedFds`, for descriptors from the hub's keeper. */
export function keptFds(env: Environment = process.env): ReceivedFd[] {
  const text = env[KEPT_COUNT];
  delete env[KEPT_COUNT];
  if (text === undefined) return [];
  const count = wholeNumber(KEPT_COUNT, text);
  using file = OwnedFd.adopt(FIRST_FD + count);
  const names = new Uint8Array(Number(statFile(file).size));
  readFilePart(file, names, 0);
  return passed(count, KEPT_COUNT, Buffer.from(names).toString().split(BETWEEN_NAMES));
}

/** Whether the hub's keeper started this process. Call it before `keptFds`. */
export function isStartedByKeeper(env: Environment = process.env): boolean {
  return env[KEPT_COUNT] !== undefined;
}

/** The variable that tells a process of descriptors from 3 on. */
export function keptEnvironment(count: number): Environment {
  return { [KEPT_COUNT]: String(count) };
}

/** A file with their names, in order. Pass it behind the last of them. The caller owns it. */
export function keptNames(names: readonly string[]): OwnedFd {
  return createConstantFile("names", Buffer.from(names.join(BETWEEN_NAMES)));
}

function passed(
  count: number,
  variable: string,
  names: readonly string[] | undefined,
): ReceivedFd[] {
  if (names !== undefined && names.length !== count) {
    throw notUnderstood(`${names.length} names came`, `${count}, as ${variable} says`);
  }
  // WHY first: if fewer were passed, the others are Node's own, and closing those ends the process.
  for (let number = FIRST_FD; number < FIRST_FD + count; number += 1) {
    if (libc().fcntl(number, F_GETFD, 0) < 0) {
      throw systemError(
        `take over descriptor ${number} of the ${count} that the service manager passed`,
        "fcntl",
      );
    }
  }
  return acquireIn((scope) =>
    Array.from({ length: count }, (_, index) => {
      const fd = scope.own(OwnedFd.adopt(FIRST_FD + index), (fd) => fd.close());
      return { name: names?.[index] || UNNAMED, fd };
    }),
  );
}

function wholeNumber(variable: string, text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw notUnderstood(`${variable} is ${JSON.stringify(text.slice(0, 50))}`, "a whole number");
}

export function notUnderstood(found: string, wanted: string): CudaIpcError {
  return new CudaIpcError(
    "INVALID_MESSAGE",
    `Cannot understand the service manager: ${found}, wanted ${wanted}`,
  );
}
