/** Where a reader begins, and which message it expects there, so that what it loses before its first one is counted too. */
import type { ControlWords } from "./control-words.js";

export type ReadFrom = "latest" | "oldest" | "next";

/** Asks for the oldest position that the writer does not yet go over. */
type Oldest = () => number;

/** Not older than what is still there when it is asked. */
export function startPosition(control: ControlWords, from: ReadFrom, published: number, oldest: Oldest): number {
  const { slots } = control.facts;
  if (from === "next") return Math.max(published, oldest());
  if (from === "oldest") return Math.max(published - slots, oldest());
  let position = published - 1;
  while (position >= oldest() && control.generation(position % slots) !== position + 1) position -= 1;
  const still = oldest();
  return position < still ? Math.max(published, still) : position;
}

/**
 * The sequence number of the message at this position, or of the next after it where it has none: from the first message there is from
 * here on, or else the last before. Undefined where no message that the writer does not yet go over says it; and where the writer has
 * come to go over the position itself.
 */
export function sequenceFrom(control: ControlWords, position: number, oldest: Oldest): number | undefined {
  if (position === control.facts.firstPosition) return 0;
  for (;;) {
    const { published } = control;
    const found = nearest(control, position, oldest(), published);
    // SYNC: asked after the headers were read: the writer moves its limit before it writes there. Pairs with `setLimit`.
    const now = oldest();
    if (position < now) return undefined;
    // WHY again: what was looked at is gone, or a message has come.
    if (found === undefined ? control.published === published : found.position >= now) return found?.sequence;
  }
}

interface Found {
  /** Of the message that says it. */
  readonly position: number;
  readonly sequence: number;
}

function nearest(control: ControlWords, position: number, oldest: number, published: number): Found | undefined {
  const { slots } = control.facts;
  const isThere = (at: number) => control.generation(at % slots) === at + 1;
  // WHY not beyond what is published: there the header may be seen in part.
  const end = Math.min(published, position + slots);
  for (let at = position; at < end; at += 1) {
    if (isThere(at)) return { position: at, sequence: control.sequenceIn(at % slots) };
  }
  for (let at = position - 1; at >= oldest; at -= 1) {
    if (isThere(at)) return { position: at, sequence: control.sequenceIn(at % slots) + 1 };
  }
  return undefined;
}
