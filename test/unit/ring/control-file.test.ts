import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import {
  control as at,
  type ChannelFacts,
  controlByteLength,
  POSITIONS_MAX,
  whenFullPolicies,
} from "../../../src/ring/channel-layout.js";
import { createControlFile, openControlFile } from "../../../src/ring/control-file.js";
import type { ControlWords } from "../../../src/ring/control-words.js";
import { ringFacts } from "../../support/ring/ring-facts.js";

function file(facts: ChannelFacts): {
  words: Uint32Array;
  open: (wanted?: Partial<ChannelFacts>) => ControlWords;
} {
  const buffer = new SharedArrayBuffer(controlByteLength(facts) + 4096);
  createControlFile(buffer, facts);
  return {
    words: new Uint32Array(buffer),
    open: (wanted = {}) =>
      openControlFile("frames", buffer, buffer.byteLength, { ...facts, ...wanted }),
  };
}

describe("opening a control file", () => {
  const facts = ringFacts({ firstPosition: 2 ** 40 });

  it("finds the created channel", () => {
    for (const whenFull of whenFullPolicies) {
      const { open } = file({ ...facts, whenFull });
      assert.deepEqual(open().facts, { ...facts, whenFull });
    }
  });

  it("refuses another version with PROTOCOL_MISMATCH", () => {
    const { words, open } = file(facts);
    words[at.version / 4] = 2;
    assert.throws(
      open,
      (error) =>
        hasCode(error, "PROTOCOL_MISMATCH") && String(error).includes("version 2, wanted 1"),
    );
  });

  const nonsense: readonly (readonly [string, number, RegExp])[] = [
    ["magic", at.magic, /does not begin with "CIPCCHAN"/],
    ["the second half of the magic", at.magic + 4, /does not begin with "CIPCCHAN"/],
    ["slots", at.slots, /says slots is 99, its descriptor 4/],
    ["readersMax", at.readersMax, /says readersMax is 99/],
    ["metaBytesMax", at.metaBytesMax, /says metaBytesMax is 99/],
    ["slotBytes", at.slotBytes, /says slotBytes is 99/],
    ["the upper half of slotBytes", at.slotBytes + 4, /says slotBytes is 425201762368/],
    ["slotStride", at.slotStride, /says slotStride is 99/],
    ["headersAt", at.headersAt, /says headersAt is 99/],
    ["headerStride", at.headerStride, /says headerStride is 99/],
    ["whenFull", at.whenFull, /says whenFull is undefined/],
    ["whenWriterGone", at.whenWriterGone, /says whenWriterGone is undefined/],
  ];
  for (const [name, byteOffset, message] of nonsense) {
    it(`refuses a wrong ${name} with INVALID_DESCRIPTOR`, () => {
      const { words, open } = file(facts);
      words[byteOffset / 4] = 99;
      assert.throws(
        open,
        (error) => hasCode(error, "INVALID_DESCRIPTOR") && message.test(String(error)),
      );
    });
  }

  it("refuses a first position beyond POSITIONS_MAX", () => {
    const { words, open } = file(facts);
    words[at.firstPosition / 4 + 1] = (POSITIONS_MAX + 1) / 2 ** 32 + 1;
    assert.throws(open, (error) => hasCode(error, "INVALID_DESCRIPTOR"));
  });

  it("refuses a file that is shorter than its descriptor wants", () => {
    const { open } = file(facts);
    assert.throws(() => open({ slots: 1000 }), /has \d+ bytes, wanted \d+/);
  });

  it("refuses an unknown state with CHANNEL_CORRUPT", () => {
    const { words, open } = file(facts);
    words[at.state / 4] = 5;
    assert.throws(
      () => open().state,
      (error) => hasCode(error, "CHANNEL_CORRUPT"),
    );
  });
});
