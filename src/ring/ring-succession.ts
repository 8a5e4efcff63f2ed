/**
 * A writer that follows another: everything that it must know is in the words that the other left, at whatever point it died. What the GPU
 * of the dead had not finished is marked as lost before the channel goes on.
 */
import { CudaIpcError } from "../base/errors.js";
import { flags } from "./channel-layout.js";
import type { ControlWords } from "./control-words.js";

/** What the timeline of the writer before came to. */
export interface EarlierTimeline {
  /** The largest value that its streams reached. */
  readonly reached: number;
}

/**
 * Makes the words those of a new writer; afterwards its timeline begins at `control.published`, and a `RingWriter` goes on.
 * @throws IN_USE where there is a writer, CHANNEL_CORRUPT where the words make no sense
 */
export function succeed(label: string, control: ControlWords, { reached }: EarlierTimeline): void {
  const { state, published, limit } = control;
  if (state !== "awaited") {
    throw new CudaIpcError(
      "IN_USE",
      `Cannot write to channel "${label}": it is ${state}, wanted one whose writer is awaited`,
    );
  }
  const { slots, firstPosition } = control.facts;
  const next = published % slots;
  // WHY: the other may have died after its last header and before the commit. Then the sequence of that header was never seen, and the
  // word for the next one may be past it already.
  const isHalfCommitted = control.generation(next) > published;
  const sequence = isHalfCommitted ? control.header(next).sequence : control.sequence;
  const makesSense =
    published >= firstPosition &&
    published <= limit &&
    limit <= published + slots &&
    limit <= Number.MAX_SAFE_INTEGER &&
    sequence <= published - firstPosition;
  if (!makesSense) {
    const found = `${published} positions published, limit ${limit}, message ${sequence} next`;
    throw new CudaIpcError("CHANNEL_CORRUPT", `Cannot write to channel "${label}": its words say ${found}`);
  }
  for (let slot = 0; slot < slots; slot += 1) {
    const generation = control.generation(slot);
    if (generation === 0 || generation > published) continue;
    const { epoch, readyAt, flags: before } = control.header(slot);
    if (epoch === control.epoch && readyAt > reached) control.setFlags(slot, before | flags.lost);
  }
  control.setSequence(sequence);
  // WHY after the sequence, which comes from there; and because this position may be passed over.
  if (isHalfCommitted) control.setGeneration(next, 0);
  control.setEpoch((control.epoch + 1) % 2 ** 32);
}
