/**
 * A memory file that is opened by other processes through /proc, without being sent: they know the exporter and the number of its
 * descriptor. Both may have been given to something else since, so everything is looked at before the file is opened and again after.
 * https://man7.org/linux/man-pages/man5/proc_pid_fd.5.html
 */
import { readlinkSync } from "node:fs";
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn } from "../../base/scope.js";
import type { Access } from "../../os/mapping.js";
import { createMemoryFile, inspectMemoryFile } from "../../os/memory-file.js";
import { openFile } from "../../os/open-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { ownIdentity, whereaboutsOf } from "../../os/process-identity.js";
import { fromNodeError } from "../../os/system-error.js";
import { ownHandle } from "../exported-handles.js";
import type { HostHandle } from "./host-handle.js";

/** The number in the name is what tells a file from a later one under the same descriptor. The caller owns it. */
export function createExporterFile(kind: HostHandle["kind"], fileNumber: number, byteLength: number): OwnedFd {
  return createMemoryFile(fileName(kind, fileNumber), byteLength);
}

/** Where and what the file is, for its handle. */
export function describeExporterFile(
  kind: HostHandle["kind"],
  fd: OwnedFd,
  fileNumber: number,
  byteLength: number,
): Omit<HostHandle, "slot" | "generation"> {
  return { kind, fd: fd.number, fileNumber, byteLength, ...ownIdentity() };
}

/**
 * The file behind a handle. The caller owns the descriptor.
 * @throws OWN_HANDLE, STALE_HANDLE where exporter or file are gone, INVALID_HANDLE where it is not what the handle says, PERMISSION_DENIED
 */
export function openExporterFile(handle: HostHandle, access: Access): OwnedFd {
  const what = `${handle.kind === "event" ? "an event" : "memory"} of the host device`;
  refuseStrangeProcess(handle, what);
  const path = `/proc/${handle.pid}/fd/${handle.fd}`;
  // WHY before it is opened: opening other things than files can have effects.
  refuseOtherFile(path, handle, what);
  return acquireIn((scope) => {
    const fd = scope.own(openFile(path, access, `import ${what} of process ${handle.pid}`), (fd) => fd.close());
    refuseOtherFile(`/proc/self/fd/${fd.number}`, handle, what);
    const { byteLength, sizeSealed } = inspectMemoryFile(fd);
    if (byteLength !== handle.byteLength || !sizeSealed) {
      const found = `its file has ${byteLength} bytes${sizeSealed ? "" : " and can be resized"}`;
      throw new CudaIpcError("INVALID_HANDLE", `Cannot import ${what}: ${found}, wanted ${handle.byteLength}`);
    }
    refuseStrangeProcess(handle, what);
    return fd;
  });
}

function refuseStrangeProcess(handle: HostHandle, what: string): void {
  const own = ownIdentity();
  if (handle.pid === own.pid && handle.startTicks === own.startTicks && handle.bootId === own.bootId) {
    throw ownHandle(what);
  }
  const whereabouts = whereaboutsOf(handle);
  if (whereabouts === "alive") return;
  const found =
    whereabouts === "gone" ? `process ${handle.pid} ended` : "it was exported on another machine or in an earlier boot";
  throw new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: ${found}`);
}

function refuseOtherFile(path: string, handle: HostHandle, what: string): void {
  if (linkTarget(path, what) === `/memfd:${fileName(handle.kind, handle.fileNumber)} (deleted)`) return;
  throw new CudaIpcError("STALE_HANDLE", `Cannot import ${what}: process ${handle.pid} has freed it`);
}

function linkTarget(path: string, what: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw fromNodeError(`import ${what}`, error);
  }
}

function fileName(kind: HostHandle["kind"], fileNumber: number): string {
  return `cuda-ipc-${kind}-${fileNumber}`;
}
