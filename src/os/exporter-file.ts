/**
 * A memory file that other processes open through /proc, by the exporter's pid and its descriptor's
 * number. Both numbers may be reused meanwhile, so everything is checked before and after the open.
 * https://man7.org/linux/man-pages/man5/proc_pid_fd.5.html
 */
import { readlinkSync } from "node:fs";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { isInMemory } from "./foreign-fd.js";
import type { Access } from "./mapping.js";
import { createMemoryFile, inspectMemoryFile } from "./memory-file.js";
import { openFile } from "./open-file.js";
import type { OwnedFd } from "./owned-fd.js";
import {
  isOwnIdentity,
  otherNamespace,
  type ProcessIdentity,
  whereaboutsOf,
} from "./process-identity.js";
import { fromNodeError } from "./system-error.js";

/** Memory and events of the host device, and the generations of what a process exports. */
type ExporterFileKind = "memory" | "event" | "generations";

/** Lets another process find the file and check it. */
export interface ExporterFile extends ProcessIdentity {
  readonly kind: ExporterFileKind;
  /** The descriptor's number in the exporter. */
  readonly fd: number;
  /** Part of the file's name, and unique in the exporter. */
  readonly fileNumber: number;
  readonly byteLength: number;
}

/** WHY not 0444: an importer of the same user opens the file again for writing. */
const EXPORTED_MODE = 0o600;

/**
 * Creates the file. The number in its name tells it from a later file under the same descriptor.
 * The caller owns the descriptor.
 */
export function createExporterFile(
  kind: ExporterFileKind,
  fileNumber: number,
  byteLength: number,
): OwnedFd {
  return createMemoryFile(fileName(kind, fileNumber), byteLength, { mode: EXPORTED_MODE });
}

/**
 * Opens the file of another process. Its size is sealed. The caller owns the descriptor.
 * @param what for messages: "memory of the host device"
 * @throws OWN_HANDLE, PERMISSION_DENIED; STALE_HANDLE if the exporter or the file is gone;
 * INVALID_HANDLE if the file differs from its description
 */
export function openExporterFile(file: ExporterFile, access: Access, what: string): OwnedFd {
  refuseStrangeProcess(file, what);
  const path = `/proc/${file.pid}/fd/${file.fd}`;
  refuseOtherFile(path, file, what);
  return acquireIn((scope) => {
    const attempt = `import ${what} of process ${file.pid}`;
    // WHY not opened at once: to open a FUSE file waits for its server. Its name proves nothing: a
    // file of a mount that was taken away has a path that begins at the root of that mount.
    const unopened = scope.own(openFile(path, "path", attempt), (it) => it.close());
    const own = `/proc/self/fd/${unopened.number}`;
    refuseOtherFile(own, file, what);
    if (!isInMemory(unopened)) throw freed(file, what);
    const fd = scope.own(openFile(own, `memory-${access}`, attempt), (it) => it.close());
    unopened.close();
    const { byteLength, sizeSealed } = inspectMemoryFile(fd);
    if (byteLength !== file.byteLength || !sizeSealed) {
      const found = `its file has ${byteLength} bytes${sizeSealed ? "" : " and can be resized"}`;
      throw new CudaIpcError(
        "INVALID_HANDLE",
        `Cannot import ${what}: ${found}, wanted ${file.byteLength}`,
      );
    }
    refuseStrangeProcess(file, what);
    return fd;
  });
}

/** The error for a handle that is opened in the process that exported it. */
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
    whereabouts === "gone"
      ? `process ${file.pid} ended`
      : "it was exported on another machine or in an earlier boot";
  throw new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: ${found}`);
}

function refuseOtherFile(path: string, file: ExporterFile, what: string): void {
  if (linkTarget(path, what) === `/memfd:${fileName(file.kind, file.fileNumber)} (deleted)`) return;
  throw freed(file, what);
}

function freed({ pid }: ExporterFile, what: string): CudaIpcError {
  return new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: process ${pid} has freed it`);
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
