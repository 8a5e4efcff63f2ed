/** Where a reader begins, and which message it expects there, so that what it loses before its first one is counted too. */
import type { ControlWords } from "./control-words.js";

export type ReadFrom = "latest" | "oldest" | "next";

/** Asks for the oldest position that the writer does not yet go over. */
type Oldest = () => number;

/** May be older than what is still there. */
export function startPosition(control: ControlWords, from: ReadFrom, published: number, oldest: Oldest): number {
  const { slots } = control.facts;
  if (from === "next") return published;
  if (from === "oldest") return published - slots;
  let position = published - 1;
  while (position >= oldest() && control.generation(position % slots) !== position + 1) position -= 1;
  return position < oldest() ? published : position;
}

/** The sequence number of the message at this position or after it; undefined where nothing there or before it says. */
export function sequenceFrom(control: ControlWords, position: number, oldest: Oldest): number | undefined {
  const { slots, firstPosition } = control.facts;
  if (position === firstPosition) return 0;
  for (const at of [position, position - 1]) {
    const slot = at % slots;
    if (control.generation(slot) !== at + 1) continue;
    const { sequence } = control.header(slot);
    // SYNC: asked after the header was read: the writer moves its limit before it writes there. Pairs with `setLimit`.
    if (at >= oldest() && Number.isSafeInteger(sequence)) return sequence + position - at;
  }
  return undefined;
}
