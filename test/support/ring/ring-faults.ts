/** Faults of one end of a ring: a writer that dies, and a reader whose page is invalid. */
import assert from "node:assert/strict";
import { hasCode } from "../../../src/base/errors.js";
import { POSITIONS_MAX } from "../../../src/ring/channel-layout.js";
import type { ModelMessage, ReaderModel } from "./reader-model.js";
import { isOf, message } from "./ring-commands.js";
import type { RingRig } from "./ring-rig.js";
import { dieAt } from "./shared-accesses.js";

const expelled = (error: unknown) => hasCode(error, "READER_EXPELLED");

function isExpelled(rig: RingRig, place: number): boolean {
  return rig.control.expelled(place) === rig.leases[place];
}

/** An expelled reader finds out at its next call. */
export function checkExpelled(rig: RingRig, place: number, { reader }: ReaderModel): void {
  if (isExpelled(rig, place)) assert.throws(() => reader.checkExpelled(), expelled);
}

/**
 * Writes until the writer has looked at the page. Until then nothing is promised about the page.
 * @returns the writer's position, and whether it has expelled the reader
 */
export function writeUntilExpelled(
  rig: RingRig,
  place: number,
  from: number,
): { readonly position: number; readonly expelled: boolean } {
  let position = from;
  while (position <= POSITIONS_MAX && !isExpelled(rig, place)) {
    const before = position;
    const rung = rig.rung[place] as number;
    if (rig.writer.reserve()) rig.writer.passOver();
    position = rig.writer.position;
    if (isExpelled(rig, place)) {
      assert.notEqual(rig.rung[place], rung, "an expelled reader is woken");
      return { position, expelled: true };
    }
    assert.notEqual(position, before, "the writer advances until it looks");
  }
  return { position, expelled: false };
}

/** Commits one message. The writer dies at the given access to shared memory, if it gets there. */
export function commitUntilDeath(
  rig: RingRig,
  at: number,
): { readonly hasDied: boolean; readonly committing: number | undefined } {
  const { epoch } = rig.control;
  let committing: number | undefined;
  const hasDied = dieAt(at, () => {
    if (!rig.writer.reserve()) return;
    committing = rig.writer.position;
    rig.fill();
    rig.writer.commit(message(committing, epoch));
  });
  return { hasDied, committing };
}

/** Marks the messages from this position on whose data a dead writer's streams never wrote. */
export function markLost(
  rig: RingRig,
  messages: readonly ModelMessage[],
  from: number,
  epoch: number,
): void {
  for (const message of messages) {
    const isThere =
      rig.control.generation(message.position % rig.facts.slots) === message.position + 1;
    if (isThere && message.position >= from && isOf(rig, message, epoch)) message.lost = true;
  }
}
