/**
 * The mark of an object in legacy memory: a memory file of one page, which travels instead of the
 * memory. It begins with a line as a timeline has (timeline-line.ts): `value` is 0 while the owner
 * has the memory, and POISON once it is gone. Then nobody may use it any more.
 *
 *   byte 0        8                    4096
 *   | value      | unused, zero       |
 *
 * The owner ends the mark before it frees the memory. The hub ends it for an owner that has gone.
 */
import { LINE_BYTES, type Line, lineAt, stateOf } from "../base/timeline-line.js";

export const MARK_BYTES = 4096;

/** The words of a mark that is mapped at this buffer. */
export function markAt(bytes: ArrayBufferLike): Line {
  return lineAt(new BigInt64Array(bytes, 0, LINE_BYTES / 8), 0);
}

export function isMarkEnded(mark: Line): boolean {
  return stateOf(mark).ended;
}
