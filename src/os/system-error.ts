/** Turns an errno into a SystemError, and decides which of our codes stands for it. */
import { constants } from "node:os";
import type { ErrorCode } from "../base/error-codes.js";
import { SystemError } from "../base/errors.js";
import { lastErrno } from "../ffi/libc.js";

/** Node's table lacks this one. It is the same number on all architectures that Node runs on. */
export const errnos = { ...constants.errno, ETOOMANYREFS: 109 };

const codes = new Map<number, ErrorCode>([
  [errnos.EMFILE, "TOO_MANY_FDS"],
  [errnos.ENFILE, "TOO_MANY_FDS"],
  [errnos.ETOOMANYREFS, "TOO_MANY_FDS"],
  [errnos.ENOSPC, "DISK_FULL"],
  [errnos.EDQUOT, "DISK_FULL"],
  [errnos.EFBIG, "LIMIT_EXCEEDED"],
  [errnos.ENOMEM, "OUT_OF_MEMORY"],
  [errnos.ENOBUFS, "OUT_OF_MEMORY"],
  [errnos.EACCES, "PERMISSION_DENIED"],
  [errnos.EPERM, "PERMISSION_DENIED"],
  [errnos.ENOSYS, "UNSUPPORTED"],
  [errnos.EPIPE, "PEER_GONE"],
  [errnos.ECONNRESET, "PEER_GONE"],
  [errnos.EPROTOTYPE, "WRONG_KIND"],
]);

/** Two names share this number. The manual pages use this one. */
const names = new Map<number, string>([
  ...Object.entries(errnos).map(([name, value]) => [value, name] as const),
  [errnos.EAGAIN, "EAGAIN"],
]);

export function errnoName(errno: number): string {
  return names.get(errno) ?? `errno ${errno}`;
}

/** @param attempt the attempt in words: `map 4096 bytes of "frame"` */
export function systemError(
  attempt: string,
  call: string,
  errno: number = lastErrno(),
): SystemError {
  const name = errnoName(errno);
  return new SystemError(
    codes.get(errno) ?? "SYSTEM_ERROR",
    `Cannot ${attempt}: ${call} failed with ${name}`,
    { errno, errnoName: name, call },
  );
}

/**
 * As `systemError`, from an error of Node's fs or child_process. Returns other errors unchanged.
 */
export function fromNodeError(attempt: string, error: unknown): unknown {
  if (!(error instanceof Error) || !("errno" in error) || typeof error.errno !== "number")
    return error;
  const errno = Math.abs(error.errno);
  const call = "syscall" in error ? String(error.syscall) : "system call";
  const errnoName = names.get(errno) ?? `errno ${errno}`;
  return new SystemError(
    codes.get(errno) ?? "SYSTEM_ERROR",
    `Cannot ${attempt}: ${call} failed with ${errnoName}`,
    { errno, errnoName, call },
    { cause: error },
  );
}
