import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FrameSeal } from "../../../../src/bridge/link/frame-seal.js";

const secret = (byte: number) => new Uint8Array(32).fill(byte);
const json = (text: string) => new TextEncoder().encode(text);

function pair(secrets: readonly [Uint8Array, Uint8Array] = [secret(1), secret(2)]) {
  return { asked: new FrameSeal(secrets, "asked"), answered: new FrameSeal(secrets, "answered") };
}

const untrusted = { code: "UNTRUSTED_PEER" };

describe("FrameSeal", () => {
  it("opens what the other side sealed, in order", () => {
    const { asked, answered } = pair();
    for (const text of ["{}", '{"id":1}', ""])
      assert.equal(Buffer.from(answered.open(asked.seal(json(text))).head).toString(), text);
    const { head, bytes } = asked.open(answered.seal(json("x"), Uint8Array.of(1, 2)));
    assert.equal(Buffer.from(head).toString(), "x");
    assert.deepEqual(bytes, Uint8Array.of(1, 2));
  });

  it("refuses a frame with any bit changed", () => {
    const frame = pair().asked.seal(json("{}"));
    for (let bit = 0; bit < frame.byteLength * 8; bit += 1) {
      const changed = Uint8Array.from(frame);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      assert.throws(() => pair().answered.open(changed), untrusted, `bit ${bit}`);
    }
  });

  it("refuses frames that are cut, repeated, left out, sent back or of another link", () => {
    const { asked, answered } = pair();
    const first = asked.seal(json("1"));
    const second = asked.seal(json("2"));
    assert.throws(() => answered.open(first.subarray(0, 43)), untrusted);
    assert.throws(() => answered.open(new Uint8Array(0)), untrusted);
    assert.throws(() => answered.open(second), untrusted);
    answered.open(first);
    assert.throws(() => answered.open(first), untrusted);
    assert.throws(() => asked.open(second), untrusted);
    assert.throws(() => pair([secret(1), secret(3)]).answered.open(first), untrusted);
    assert.throws(() => pair([secret(2), secret(1)]).answered.open(first), untrusted);
  });

  it("takes secrets of 32 bytes and frames up to a limit", () => {
    assert.throws(() => pair([secret(1), new Uint8Array(31)]), TypeError);
    const large = new Uint8Array(80 * 1024);
    for (const seal of [() => pair().asked.seal(large), () => pair().asked.seal(json("{}"), large)])
      assert.throws(seal, { code: "MESSAGE_TOO_LARGE" });
  });
});
