/** Ends a timeline on behalf of its owner, who died: everybody who waits for it, streams of GPUs included, is released by the write of a word. */
import { CudaIpcError } from "../base/errors.js";
import { LINE_BYTES, poisonFile } from "../base/timeline-line.js";
import { inspectMemoryFile } from "../os/memory-file.js";
import { OwnMemory } from "../os/own-memory.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { SharedWords } from "../os/shared-words.js";
import { checkPlace, type TimelinePlace } from "./timeline.js";

/**
 * Only once the owner's pidfd says that it ended: a stream of a living owner could still write the timeline.
 * @param fd from `exportWritableFd`; stays the caller's
 * @throws INVALID_DESCRIPTOR, PERMISSION_DENIED where the descriptor is for reading alone
 */
export function endTimelineOfDead(fd: OwnedFd, place: TimelinePlace): void {
  const { byteLength, writable, flaw } = inspectMemoryFile(fd);
  const attempt = "Cannot end the timeline of a dead process";
  if (flaw !== undefined) throw new CudaIpcError("INVALID_DESCRIPTOR", `${attempt}: ${flaw}`);
  checkPlace("of a dead process", place, byteLength);
  if (!writable) throw new CudaIpcError("PERMISSION_DENIED", `${attempt}: its descriptor is for reading alone`);
  using ownMemory = new OwnMemory();
  using line = new SharedWords({ fd, ...place, byteLength: LINE_BYTES }, ownMemory);
  poisonFile(line);
}
