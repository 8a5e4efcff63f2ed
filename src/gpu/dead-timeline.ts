/** Ends a timeline on behalf of its owner, who died: everybody who waits for it, streams of GPUs included, is released by a plain store. */
import { withWords } from "../os/mapped-words.js";
import { inspectMemoryFile } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { lineAt, poison } from "../wire/timeline-line.js";
import { checkPlace, type TimelinePlace } from "./timeline.js";

/**
 * Only once the owner's pidfd says that it ended: a stream of a living owner could still write the timeline.
 * @param fd from `exportWritableFd`; stays the caller's
 * @throws INVALID_DESCRIPTOR, PERMISSION_DENIED where the descriptor is for reading alone
 */
export function endTimelineOfDead(fd: OwnedFd, place: TimelinePlace): void {
  checkPlace("of a dead process", place, inspectMemoryFile(fd).byteLength);
  withWords(fd, (words) => poison(lineAt(words, place.byteOffset)));
}
