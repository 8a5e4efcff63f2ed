import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { limits } from "../../../src/base/limits.js";
import { RANK_MAX } from "../../../src/ring/channel-layout.js";
import {
  decodeCarriedFrame,
  encodeMessage,
  encodeMore,
  isCarriedFrame,
} from "../../../src/wire/carried-frames.js";

const count = fc.maxSafeNat();
const message = fc.record({
  read: count,
  sequence: count,
  byteLength: count,
  export: fc.option(fc.integer({ min: 1 }), { nil: undefined }),
  shape: fc.option(fc.array(count, { maxLength: RANK_MAX }), { nil: undefined }),
  meta: fc.uint8Array({ maxLength: 64 }),
  metaIsJson: fc.boolean(),
});
const invalid = { code: "INVALID_MESSAGE" };

function head(changes: Readonly<Record<number, number>> = {}, byteLength = 48): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  bytes[0] = 1;
  for (const [at, byte] of Object.entries(changes)) bytes[Number(at)] = byte;
  return bytes;
}

describe("frames of carried channels", () => {
  it("are decoded as they were encoded", () => {
    fc.assert(
      fc.property(message, (sent) => {
        const bytes = encodeMessage(sent);
        assert.ok(isCarriedFrame(bytes));
        assert.deepEqual(decodeCarriedFrame("it", bytes), { kind: "message", ...sent });
      }),
    );
    fc.assert(
      fc.property(count, count, (read, more) => {
        const bytes = encodeMore({ read, count: more });
        assert.deepEqual(decodeCarriedFrame("it", bytes), { kind: "more", read, count: more });
      }),
    );
  });

  it("are not taken for JSON, nor JSON for them", () => {
    for (const text of ["", "{}", " {}", "[1]", "1", '"x"', "null"])
      assert.equal(isCarriedFrame(Buffer.from(text)), false, text);
    assert.throws(() => JSON.parse(Buffer.from(head()).toString()), SyntaxError);
  });

  it("are refused if they are cut, too long, or have flags that there are not", () => {
    const wrong = {
      "no words": head({}, 1),
      "a word too few": head({}, 39),
      "an unknown flag": head({ 1: 4 }),
      "a byte that is to be zero": head({ 5: 1 }),
      "axes without the flag": head({ 2: 1 }),
      "more axes than there may be": head({ 1: 2, 2: RANK_MAX + 1 }, 40 + 8 * (RANK_MAX + 1)),
      "more axes than bytes": head({ 1: 2, 2: 2 }, 55),
      "a sequence over 2^53": head({ 23: 0x20 }),
      "too much meta": head({}, 40 + limits.channelMetaBytesMax + 1),
      "more, cut": head({ 0: 2 }, 23),
      "more, too long": head({ 0: 2 }, 25),
      "more, with a flag": head({ 0: 2, 1: 1 }, 24),
    };
    for (const [what, bytes] of Object.entries(wrong))
      assert.throws(() => decodeCarriedFrame("it", bytes), invalid, what);
  });

  it("end in one error whatever their bytes are", () => {
    fc.assert(
      fc.property(fc.constantFrom(1, 2), fc.uint8Array({ maxLength: 200 }), (kind, rest) => {
        const bytes = Uint8Array.of(kind, ...rest);
        try {
          decodeCarriedFrame("it", bytes);
        } catch (error) {
          assert.equal((error as { code?: string }).code, "INVALID_MESSAGE");
        }
      }),
    );
  });
});
