/**
 * Prepares the words of a channel for its next writer. The words say where the last writer was, at
 * whatever point it died. Messages that its GPU work had not finished are marked as lost.
 */
import { CudaIpcError } from "../base/errors.js";
import { flags } from "./channel-layout.js";
import type { ControlWords } from "./control-words.js";

/** The timeline of the last writer. */
export interface EarlierTimeline {
  /** The largest value that its streams reached. */
  readonly reached: number;
}

/**
 * Turns the words into those of a new writer. Its timeline begins at `control.published`, and a
 * `RingWriter` continues from there.
 * @throws IN_USE if there is a writer; CHANNEL_CORRUPT if the words make no sense
 */
export function succeed(label: string, control: ControlWords, { reached }: EarlierTimeline): void {
  const { state, limit } = control;
  if (state !== "awaited") {
    throw new CudaIpcError(
      "IN_USE",
      `Cannot write to channel "${label}": it is ${state}, wanted one whose writer is awaited`,
    );
  }
  const { slots, firstPosition } = control.facts;
  const { published, sequence } = lastOf(control);
  const makesSense =
    published >= firstPosition &&
    published <= limit &&
    limit <= published + slots &&
    limit <= Number.MAX_SAFE_INTEGER &&
    sequence <= published - firstPosition;
  if (!makesSense) {
    const found = `${published} positions published, limit ${limit}, message ${sequence} next`;
    throw new CudaIpcError(
      "CHANNEL_CORRUPT",
      `Cannot write to channel "${label}": its words say ${found}`,
    );
  }
  for (let slot = 0; slot < slots; slot += 1) {
    const generation = control.generation(slot);
    if (generation === 0 || generation > published) continue;
    const { epoch, readyAt, flags: before } = control.header(slot);
    if (epoch === control.epoch && readyAt > reached) control.setFlags(slot, before | flags.lost);
  }
  // WHY in this order: if this writer dies here, too, the next one finds the sequence in the header
  // at `published`.
  control.setSequence(sequence);
  control.publish(published);
  control.setEpoch((control.epoch + 1) % 2 ** 32);
}

/**
 * Where the last writer was. It may have died right after the header, so the header counts more
 * than `published` and `sequence`.
 */
function lastOf(control: ControlWords): { readonly published: number; readonly sequence: number } {
  const { published, sequence } = control;
  // A position below 0 has no slot. The caller rejects such words.
  if (published < control.facts.firstPosition) return { published, sequence };
  const slot = published % control.facts.slots;
  if (control.generation(slot) === published + 1) {
    return { published: published + 1, sequence: control.header(slot).sequence + 1 };
  }
  return {
    published: control.passedOver(slot) === published + 1 ? published + 1 : published,
    sequence,
  };
}
