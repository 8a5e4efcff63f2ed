/** Attaches a reader to a ring: where it begins, and which message it expects there. */
import { limits } from "../base/limits.js";
import type { ControlWords } from "./control-words.js";
import type { PageWords } from "./page-words.js";

export type ReadFrom = "latest" | "oldest" | "next";

/** Returns the oldest position that the writer does not overwrite yet. */
type Oldest = () => number;

export interface AttachOptions {
  readonly from: ReadFrom;
  readonly lossy: boolean;
  /** `published` as it was before the attachment. */
  readonly published: number;
  readonly oldest: Oldest;
  /** Throws CHANNEL_CORRUPT with what was found. */
  readonly refuse: (found: string) => never;
}

export interface RingStart {
  /** Where the reader begins. */
  readonly position: number;
  /** The sequence number it expects there; undefined if none can be lost or none is known. */
  readonly sequence: number | undefined;
  /** The reader moved on after the writer could see it. */
  readonly hasMoved: boolean;
}

/** Headers that one attachment may still look at. */
interface HeadersLeft {
  count: number;
}

/** Announces the reader in its page. From then on the writer waits for it, or sees its claims. */
export function attach(
  control: ControlWords,
  page: PageWords,
  { from, lossy, published, oldest: findOldest, refuse }: AttachOptions,
): RingStart {
  const { slots, firstPosition } = control.facts;
  if (published < firstPosition)
    refuse(`${published} positions are published, the first was ${firstPosition}`);
  const begin = startPosition(control, from, published, findOldest);
  let position = begin;
  let sequence: number | undefined;
  page.setAsleep((page.asleep + 1) & ~1);
  page.setMode(lossy ? "lossy" : "waitedFor");
  page.setDone(position);
  page.setReleased(position);
  page.setState("attached");
  // WHY two rings: if nearly all positions were passed over, the one that tells is that far away.
  const headers = { count: 2 * slots + limits.channelLooksMax };
  // The writer may have gone on before it could see this reader, so look again.
  let oldest = findOldest();
  for (let looks = 1; ; looks += 1) {
    if (position < oldest) {
      position = oldest;
      page.setDone(position);
      page.setReleased(position);
    }
    // A reader that the writer waits for loses nothing before its first message.
    if (lossy) sequence = sequenceFrom(control, position, findOldest, headers);
    oldest = findOldest();
    if (position >= oldest) break;
    if (looks < limits.channelLooksMax) continue;
    // A lossy reader may begin behind: its first claim finds where the writer is.
    if (lossy) break;
    refuse(`its limit rose at each of ${looks} looks, although the writer waits for this reader`);
  }
  if (sequence !== undefined && !(Number.isSafeInteger(sequence) && sequence >= 0))
    // It may be ahead of the position: a bridge counts what it missed on the other machine.
    refuse(`message ${sequence} comes at ${position}`);
  return { position, sequence, hasMoved: position !== begin };
}

/** Never older than what the writer still keeps at the moment of the call. */
function startPosition(
  control: ControlWords,
  from: ReadFrom,
  published: number,
  oldest: Oldest,
): number {
  const { slots } = control.facts;
  if (from === "next") return Math.max(published, oldest());
  if (from === "oldest") return Math.max(published - slots, oldest());
  let position = published - 1;
  while (position >= oldest() && control.generation(position % slots) !== position + 1)
    position -= 1;
  const still = oldest();
  return position < still ? Math.max(published, still) : position;
}

/**
 * The sequence number of the next message at or after this position. The first message from here on
 * says it, or else the last one before. Returns undefined if no kept message says it, if the writer
 * overwrites the position itself, or if the writer was faster until no header is left to look at.
 */
function sequenceFrom(
  control: ControlWords,
  position: number,
  oldest: Oldest,
  headers: HeadersLeft,
): number | undefined {
  if (position === control.facts.firstPosition) return 0;
  for (; headers.count > 0; headers.count -= 1) {
    const { published } = control;
    const found = nearest(control, position, { oldest: oldest(), published, headers });
    // SYNC: after the headers. The writer moves its limit before it writes a header. Pairs with
    // `setLimit`.
    const now = oldest();
    if (position < now) return undefined;
    // Try again if the message that says it was overwritten, or if a message has come meanwhile.
    if (found === undefined ? control.published === published : found.position >= now)
      return found?.sequence;
  }
  return undefined;
}

interface Found {
  /** Of the message that says it. */
  readonly position: number;
  readonly sequence: number;
}

function nearest(
  control: ControlWords,
  position: number,
  {
    oldest,
    published,
    headers,
  }: { readonly oldest: number; readonly published: number; readonly headers: HeadersLeft },
): Found | undefined {
  const { slots } = control.facts;
  const isThere = (at: number) => {
    headers.count -= 1;
    return control.generation(at % slots) === at + 1;
  };
  // Beyond `published` a header may be half written.
  const end = Math.min(published, position + slots);
  for (let at = position; at < end && headers.count > 0; at += 1) {
    if (isThere(at)) return { position: at, sequence: control.sequenceIn(at % slots) };
  }
  // WHY not from `oldest` alone: a writer that lowers its limit would make this take for ever.
  const begin = Math.max(oldest, position - slots);
  for (let at = position - 1; at >= begin && headers.count > 0; at -= 1) {
    if (isThere(at)) return { position: at, sequence: control.sequenceIn(at % slots) + 1 };
  }
  return undefined;
}
