/**
 * Takes the pages of a memory file at once, on the thread pool. Otherwise a page is taken when a
 * process first touches it, and SIGBUS or the OOM killer ends that process if none is left.
 */
import type { Deadline } from "../base/deadline.js";
import { SystemError } from "../base/errors.js";
import { lastErrno, libc } from "../ffi/libc.js";
import type { OwnedFd } from "./owned-fd.js";
import { errnos, systemError } from "./system-error.js";

/** A piece takes about 5 ms, and as long is the wait after an abort. */
const PIECE_BYTES = 16 * 1024 * 1024;

export interface PreallocateOptions {
  /** The name in messages of the object that the memory is for. */
  readonly name: string;
  readonly deadline: Deadline;
  /** Called between pieces with the bytes that are still to be taken. May throw. */
  readonly onPiece?: ((restBytes: number) => void) | undefined;
}

/**
 * Takes all pages of the file, which keeps its content. The caller keeps the descriptor, which must
 * stay open meanwhile. If it fails, the pages that it took stay with the file.
 * @throws OUT_OF_MEMORY, TIMEOUT, ABORTED; what `onPiece` throws
 */
export async function preallocateFile(
  fd: OwnedFd,
  byteLength: number,
  { name, deadline, onPiece }: PreallocateOptions,
): Promise<void> {
  for (let done = 0; done < byteLength; ) {
    deadline.check();
    if (done > 0) onPiece?.(byteLength - done);
    const pieceBytes = Math.min(PIECE_BYTES, byteLength - done);
    const errno = await allocatePiece(fd, done, pieceBytes);
    if (errno === 0) done += pieceBytes;
    else if (errno !== errnos.EINTR) throw refusal(name, byteLength, done, errno);
  }
}

/** Resolves to its errno, or to 0. */
function allocatePiece(fd: OwnedFd, byteOffset: number, byteLength: number): Promise<number> {
  return new Promise((resolve, reject) => {
    libc().fallocate.async(fd.number, 0, byteOffset, byteLength, (failure, result) => {
      if (failure !== null && failure !== undefined) reject(failure);
      else resolve(result < 0 ? lastErrno() : 0);
    });
  });
}

function refusal(name: string, byteLength: number, done: number, errno: number): SystemError {
  const attempt = `create "${name}": only ${done} of its ${byteLength} bytes could be preallocated`;
  const error = systemError(attempt, "fallocate", errno);
  // WHY not DISK_FULL: the pages of a memory file are memory.
  return errno === errnos.ENOSPC ? new SystemError("OUT_OF_MEMORY", error.message, error) : error;
}
