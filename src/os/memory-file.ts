/**
 * Memory with a file descriptor (memfd): sized once, sealed against resizing, so that nobody who maps it
 * can be ended by a shrink under its feet (SIGBUS).
 */
import { writeSync } from "node:fs";
import { acquireIn } from "../base/scope.js";
import { lastErrno, libc } from "../ffi/libc.js";
import { statFile } from "./file-calls.js";
import { openFile } from "./open-file.js";
import { OwnedFd } from "./owned-fd.js";
import { errnos, fromNodeError, systemError } from "./system-error.js";

const MFD_CLOEXEC = 1;
const MFD_ALLOW_SEALING = 2;
const MFD_NOEXEC_SEAL = 8;
const F_ADD_SEALS = 1033;
const F_GET_SEALS = 1034;
const F_SEAL_SEAL = 1;
const F_SEAL_SHRINK = 2;
const F_SEAL_GROW = 4;
const F_SEAL_WRITE = 8;
const F_SEAL_FUTURE_WRITE = 16;
const F_GETFL = 3;
const O_ACCMODE = 3;
const O_RDWR = 2;
const SIZE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW;
const WRITE_SEALS = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;

/** New zeroed memory of exactly `byteLength` bytes whose size nobody can change. The caller owns the descriptor. */
export function createMemoryFile(name: string, byteLength: number): OwnedFd {
  return acquireIn((scope) => {
    const fd = scope.own(create(name), (fd) => fd.close());
    if (libc().ftruncate(fd.number, byteLength) < 0) {
      throw systemError(`size memory file "${name}" to ${byteLength} bytes`, "ftruncate");
    }
    seal(fd, SIZE_SEALS);
    return fd;
  });
}

/** Memory that holds exactly these bytes and can be changed by nobody, its creator included. The caller owns the descriptor. */
export function createConstantFile(name: string, content: Uint8Array): OwnedFd {
  return acquireIn((scope) => {
    const fd = scope.own(create(name), (fd) => fd.close());
    try {
      for (let written = 0; written < content.byteLength; ) {
        written += writeSync(fd.number, content, written, content.byteLength - written);
      }
    } catch (error) {
      throw fromNodeError(`fill memory file "${name}" with ${content.byteLength} bytes`, error);
    }
    seal(fd, SIZE_SEALS | F_SEAL_WRITE | F_SEAL_SEAL);
    return fd;
  });
}

export interface MemoryFileFacts {
  readonly byteLength: number;
  /** Nobody can resize it. */
  readonly sizeSealed: boolean;
  /** Nobody can change its bytes either. */
  readonly contentSealed: boolean;
  /** Its bytes can be changed by way of this descriptor. */
  readonly writable: boolean;
}

/** What holds of a file that somebody else sent; nothing is sealed where it is no memory file. */
export function inspectMemoryFile(fd: OwnedFd): MemoryFileFacts {
  const byteLength = statFile(fd).size;
  const seals = libc().fcntl(fd.number, F_GET_SEALS, 0);
  const sizeSealed = seals >= 0 && (seals & SIZE_SEALS) === SIZE_SEALS;
  const contentSealed = sizeSealed && (seals & F_SEAL_WRITE) !== 0;
  const writable = (libc().fcntl(fd.number, F_GETFL, 0) & O_ACCMODE) === O_RDWR;
  return { byteLength, sizeSealed, contentSealed, writable: writable && (seals & WRITE_SEALS) === 0 };
}

/** A descriptor of the same memory through which nobody can map it writable. The caller owns it. */
export function reopenReadOnly(fd: OwnedFd): OwnedFd {
  return openFile(`/proc/self/fd/${fd.number}`, "read", "reopen a memory file for reading");
}

function create(name: string): OwnedFd {
  const flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  let fd = libc().memfd_create(name, flags | MFD_NOEXEC_SEAL);
  // WHY: MFD_NOEXEC_SEAL is refused with EINVAL by Linux before 6.3.
  if (fd < 0 && lastErrno() === errnos.EINVAL) fd = libc().memfd_create(name, flags);
  if (fd < 0) throw systemError(`create memory file "${name}"`, "memfd_create");
  return new OwnedFd(fd);
}

function seal(fd: OwnedFd, seals: number): void {
  if (libc().fcntl(fd.number, F_ADD_SEALS, seals) < 0) throw systemError("seal a memory file", "fcntl");
}
