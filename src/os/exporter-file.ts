/**
 * A memory file that is opened by other processes through /proc, without being sent: they know the exporter and the number of its
 * descriptor. Both may have been given to something else since, so everything is looked at before the file is opened and again after.
 * https://man7.org/linux/man-pages/man5/proc_pid_fd.5.html
 */
import { readlinkSync } from "node:fs";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import type { Access } from "./mapping.js";
import { createMemoryFile, inspectMemoryFile } from "./memory-file.js";
import { openFile } from "./open-file.js";
import type { OwnedFd } from "./owned-fd.js";
import { isOwnIdentity, otherNamespace, type ProcessIdentity, whereaboutsOf } from "./process-identity.js";
import { fromNodeError } from "./system-error.js";

/** What a process has files of this sort for: memory and events of the host device, and the generations of what it exports. */
type ExporterFileKind = "memory" | "event" | "generations";

/** Where and what a file is, as others are told. */
export interface ExporterFile extends ProcessIdentity {
  readonly kind: ExporterFileKind;
  /** The descriptor's number in the exporter. */
  readonly fd: number;
  /** In the file's name, and given to no other file of the exporter. */
  readonly fileNumber: number;
  readonly byteLength: number;
}

/** WHY not 0444: who imports for writing opens the file anew, and is of the same user. */
const EXPORTED_MODE = 0o600;

/** The number in the name is what tells a file from a later one under the same descriptor. The caller owns it. */
export function createExporterFile(kind: ExporterFileKind, fileNumber: number, byteLength: number): OwnedFd {
  return createMemoryFile(fileName(kind, fileNumber), byteLength, { mode: EXPORTED_MODE });
}

/**
 * The file of another process, whose size is sealed. The caller owns the descriptor.
 * @param what for messages: "memory of the host device"
 * @throws OWN_HANDLE, STALE_HANDLE where exporter or file are gone, INVALID_HANDLE where it is not what was told, PERMISSION_DENIED
 */
export function openExporterFile(file: ExporterFile, access: Access, what: string): OwnedFd {
  refuseStrangeProcess(file, what);
  const path = `/proc/${file.pid}/fd/${file.fd}`;
  // WHY before it is opened: opening other things than files can have effects.
  refuseOtherFile(path, file, what);
  return acquireIn((scope) => {
    const fd = scope.own(openFile(path, `memory-${access}`, `import ${what} of process ${file.pid}`), (fd) =>
      fd.close(),
    );
    refuseOtherFile(`/proc/self/fd/${fd.number}`, file, what);
    const { byteLength, sizeSealed } = inspectMemoryFile(fd);
    if (byteLength !== file.byteLength || !sizeSealed) {
      const found = `its file has ${byteLength} bytes${sizeSealed ? "" : " and can be resized"}`;
      throw new CudaIpcError("INVALID_HANDLE", `Cannot import ${what}: ${found}, wanted ${file.byteLength}`);
    }
    refuseStrangeProcess(file, what);
    return fd;
  });
}

/** What is thrown for a handle in the process that exported it. */
export function ownHandle(what: string): CudaIpcError {
  return new CudaIpcError(
    "OWN_HANDLE",
    `Cannot import ${what}: the handle was exported by this process (${process.pid})`,
  );
}

function refuseStrangeProcess(file: ExporterFile, what: string): void {
  if (isOwnIdentity(file)) throw ownHandle(what);
  const whereabouts = whereaboutsOf(file);
  if (whereabouts === "alive") return;
  if (whereabouts === "unseen") throw otherNamespace(`import ${what}`, file.pid);
  const found =
    whereabouts === "gone" ? `process ${file.pid} ended` : "it was exported on another machine or in an earlier boot";
  throw new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: ${found}`);
}

function refuseOtherFile(path: string, file: ExporterFile, what: string): void {
  if (linkTarget(path, what) === `/memfd:${fileName(file.kind, file.fileNumber)} (deleted)`) return;
  throw new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: process ${file.pid} has freed it`);
}

function linkTarget(path: string, what: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw fromNodeError(`import ${what}`, error);
  }
}

function fileName(kind: ExporterFileKind, fileNumber: number): string {
  return `cuda-ipc-${kind}-${fileNumber}`;
}
