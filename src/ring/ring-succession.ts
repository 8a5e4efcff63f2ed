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
  if (
    !Number.isSafeInteger(published) ||
    !Number.isSafeInteger(limit) ||
    published < firstPosition ||
    limit < firstPosition
  ) {
    throw new CudaIpcError(
      "CHANNEL_CORRUPT",
      `Cannot write to channel "${label}": ${published} published, limit ${limit}`,
    );
  }
  let sequence: number | undefined;
  for (let position = published - 1; position >= Math.max(firstPosition, published - slots); position -= 1) {
    const slot = position % slots;
    if (control.generation(slot) !== position + 1) continue;
    const { epoch, readyAt, sequence: found, flags: before } = control.header(slot);
    sequence ??= found + 1;
    if (epoch === control.epoch && readyAt > reached) control.setFlags(slot, before | flags.lost);
  }
  // WHY: the other may have died after its last header and before the commit, and this position may be passed over.
  const next = published % slots;
  if (control.generation(next) > published) control.setGeneration(next, 0);
  if (sequence !== undefined) control.setSequence(sequence);
  control.setEpoch((control.epoch + 1) % 2 ** 32);
}
