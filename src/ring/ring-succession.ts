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
    throw new CudaIpcError("CHANNEL_CORRUPT", `Cannot write to channel "${label}": its words say ${found}`);
  }
  for (let slot = 0; slot < slots; slot += 1) {
    const generation = control.generation(slot);
    if (generation === 0 || generation > published) continue;
    const { epoch, readyAt, flags: before } = control.header(slot);
    if (epoch === control.epoch && readyAt > reached) control.setFlags(slot, before | flags.lost);
  }
  // WHY in this order: it comes from the header at what is published, which is looked at again where this one dies, too.
  control.setSequence(sequence);
  control.publish(published);
  control.setEpoch((control.epoch + 1) % 2 ** 32);
}

/** Where the other was. WHY asked of the header: it may have died after it had said there that a position is done with, and before all else. */
function lastOf(control: ControlWords): { readonly published: number; readonly sequence: number } {
  const { published, sequence } = control;
  // WHY here, too: there is no slot of a position below 0, and nothing else is looked at of words that make no sense.
  if (published < control.facts.firstPosition) return { published, sequence };
  const slot = published % control.facts.slots;
  if (control.generation(slot) === published + 1) {
    return { published: published + 1, sequence: control.header(slot).sequence + 1 };
  }
  return { published: control.passedOver(slot) === published + 1 ? published + 1 : published, sequence };
}
