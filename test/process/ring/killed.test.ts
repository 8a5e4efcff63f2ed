/**
 * Writers and readers of a ring in memory files that are killed. The test acts as the hub.
 * unit/ring/deaths.test.ts kills them at every access. This test uses some accesses, and all in the
 * nightly run.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { beginSeat, endSeat, endWriter } from "../../../src/ring/channel-end.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { nightly } from "../../support/random.js";
import { type Deed, DYING_LEASE, readerDeed, writerDeed } from "../../support/ring/ring-deaths.js";
import { EVERYTHING, RingFiles } from "../../support/ring/ring-files.js";
import { RingRig } from "../../support/ring/ring-rig.js";

const DIES = new URL("./actors/dies-in-a-ring.js", import.meta.url);
/** The process is killed at one of this many accesses. */
const STRIDE = nightly ? 1 : 29;

/** @returns true if it was killed before its end */
async function die({ facts, role, before }: Deed, at: number): Promise<boolean> {
  using files = new RingFiles(facts, EVERYTHING);
  const after = before(new RingRig(facts, files.memory, "new"));
  const page = files.pageFile(0);
  beginSeat(page, DYING_LEASE);
  await using actor = new Actor(DIES, {
    args: [role, String(at), JSON.stringify(facts)],
    fds: files.fdNumbers,
  });
  const ended = await actor.exited();
  assert.ok(ended === "SIGKILL" || ended === 0, `${ended}: ${actor.complaint}`);
  after({
    beginSeat: (lease) => beginSeat(page, lease),
    endSeat: () => endSeat(page),
    endWriter: () =>
      endWriter(files.controlFile, facts.whenWriterGone === "end" ? "gone" : "awaited"),
  });
  return ended === "SIGKILL";
}

/** Kills it at one access after the other, until it reaches its end. */
async function dieAtEach(deed: Deed): Promise<void> {
  let at = 0;
  while (await die(deed, at)) at += STRIDE;
  assert.ok(at > 30, `there were ${at} steps`);
}

describe("a writer that is killed at any access", () => {
  checkLeaks();

  for (const whenFull of ["wait", "drop-oldest"] as const) {
    it(`leaves exactly the committed messages to the next writer: ${whenFull}`, () =>
      dieAtEach(writerDeed(whenFull)));
  }
});

describe("a reader that is killed at any access", () => {
  checkLeaks();

  for (const role of ["reader", "lossy reader"] as const) {
    it(`loses its seat and its slots: ${role}`, () => dieAtEach(readerDeed(role)));
  }
});
