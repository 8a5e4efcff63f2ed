import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { beginSeat, endSeat, endWriter } from "../../../src/ring/channel-end.js";
import { whenFullPolicies } from "../../../src/ring/channel-layout.js";
import {
  act,
  type Deed,
  DYING_LEASE,
  readerDeed,
  writerDeed,
} from "../../support/ring/ring-deaths.js";
import { RingRig, ringMemory, wordsFile } from "../../support/ring/ring-rig.js";
import { dieAt } from "../../support/ring/shared-accesses.js";

/** Dies at each access, until it reaches its end. */
function dieAtEach({ facts, role, before }: Deed): void {
  let at = 0;
  for (let hasDied = true; hasDied; at += 1) {
    const memory = ringMemory(facts);
    const rig = new RingRig(facts, memory, "new");
    const after = before(rig);
    const page = wordsFile(memory.pages[0] as ArrayBufferLike);
    beginSeat(page, DYING_LEASE);
    hasDied = dieAt(at, () => act(role, new RingRig(facts, memory)));
    after({
      beginSeat: (lease) => beginSeat(page, lease),
      endSeat: () => endSeat(page),
      endWriter: () =>
        endWriter(wordsFile(memory.control), facts.whenWriterGone === "end" ? "gone" : "awaited"),
    });
  }
  assert.ok(at > 30, `there were ${at} steps`);
}

describe("a writer that dies at any access", () => {
  for (const whenFull of whenFullPolicies) {
    it(`leaves exactly the committed messages to the next writer: ${whenFull}`, () =>
      dieAtEach(writerDeed(whenFull)));
  }
});

describe("a reader that dies at any access", () => {
  for (const role of ["reader", "lossy reader"] as const) {
    it(`loses its seat and its slots: ${role}`, () => dieAtEach(readerDeed(role)));
  }
});
