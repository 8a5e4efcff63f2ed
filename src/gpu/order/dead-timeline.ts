/** Ends the timeline of a dead owner. One write releases all waiters, GPU streams included. */
import { CudaIpcError } from "../../base/errors.js";
import { LINE_BYTES, poisonFile } from "../../base/timeline-line.js";
import { inspectMemoryFile } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { OwnMemory, UntrustedWords } from "../../os/untrusted-words.js";
import { checkLocation, type TimelineLocation } from "./shared-words.js";

/**
 * Ends a timeline whose owner died. Call it only after the owner's pidfd reported its end: a stream
 * of a living owner could still write to the timeline.
 * @param fd from `exportWritableFd`; the caller still owns it
 * @throws INVALID_DESCRIPTOR, PERMISSION_DENIED if the file descriptor is read-only
 */
export function endTimelineOfDead(fd: OwnedFd, location: TimelineLocation): void {
  const { byteLength, writable, flaw } = inspectMemoryFile(fd);
  const attempt = "Cannot end the timeline of a dead process";
  if (flaw !== undefined) throw new CudaIpcError("INVALID_DESCRIPTOR", `${attempt}: ${flaw}`);
  checkLocation("of a dead process", location, byteLength);
  if (!writable)
    throw new CudaIpcError("PERMISSION_DENIED", `${attempt}: its file descriptor is read-only`);
  using ownMemory = new OwnMemory();
  using line = new UntrustedWords({ fd, ...location, byteLength: LINE_BYTES }, ownMemory);
  poisonFile(line);
}
