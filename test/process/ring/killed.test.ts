/**
 * Writers and readers of a ring that are killed, in files of memory; the hub's part is done here. All their steps are in
 * unit/ring/deaths.test.ts; here are some of them, and all in the long run.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { beginPlace, endPlace, endWriter } from "../../../src/ring/channel-end.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { nightly } from "../../support/random.js";
import { type Deed, DYING_LEASE, readerDeed, writerDeed } from "../../support/ring/ring-deaths.js";
import { EVERYTHING, RingFiles } from "../../support/ring/ring-files.js";
import { RingRig } from "../../support/ring/ring-rig.js";

const DIES = new URL("./actors/dies-in-a-ring.js", import.meta.url);
/** Of the steps of an operation, one in so many is a death. */
const STRIDE = nightly ? 1 : 29;

/** @returns whether it died, and did not come to its end */
async function die({ facts, role, before }: Deed, at: number): Promise<boolean> {
  using files = new RingFiles(facts, EVERYTHING);
  const after = before(new RingRig(facts, files.memory, "new"));
  const page = files.pageFile(0);
  beginPlace(page, DYING_LEASE);
  await using actor = new Actor(DIES, { args: [role, String(at), JSON.stringify(facts)], fds: files.fdNumbers });
  const ended = await actor.exited();
  assert.ok(ended === "SIGKILL" || ended === 0, `${ended}: ${actor.complaint}`);
  after({
    beginPlace: (lease) => beginPlace(page, lease),
    endPlace: () => endPlace(page),
    endWriter: () => endWriter(files.controlFile, facts.whenWriterGone === "end" ? "gone" : "awaited"),
  });
  return ended === "SIGKILL";
}

/** Dies at one step after the other, until it comes to its end. */
async function dieAtEach(deed: Deed): Promise<void> {
  let at = 0;
  while (await die(deed, at)) at += STRIDE;
  assert.ok(at > 30, `there were ${at} steps`);
}

describe("a writer that is killed at any point", () => {
  checkLeaks();

  for (const whenFull of ["wait", "drop-oldest"] as const) {
    it(`leaves what was committed and nothing else, and another goes on: ${whenFull}`, () =>
      dieAtEach(writerDeed(whenFull)));
  }
});

describe("a reader that is killed at any point", () => {
  checkLeaks();

  for (const role of ["reader", "reader that may be overtaken"] as const) {
    it(`gives its place and its slots back: ${role}`, () => dieAtEach(readerDeed(role)));
  }
});
