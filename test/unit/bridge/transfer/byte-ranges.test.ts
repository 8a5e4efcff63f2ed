import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { ByteRanges, PieceSize } from "../../../../src/bridge/transfer/byte-ranges.js";

describe("ByteRanges", () => {
  it("gives each byte until it is done, whatever fails meanwhile", () => {
    const step = fc.record({ size: fc.integer({ min: 1, max: 300 }), fails: fc.boolean() });
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1000 }), fc.array(step), (total, steps) => {
        const ranges = new ByteRanges(total);
        const copied = new Uint8Array(total);
        const take = (size: number, fails: boolean) => {
          const range = ranges.take(size);
          if (range === undefined) return false;
          if (fails) ranges.giveBack(range);
          else {
            for (let i = 0; i < range.byteLength; i += 1)
              copied[range.byteOffset + i] = (copied[range.byteOffset + i] ?? 0) + 1;
            ranges.done(range);
          }
          return true;
        };
        for (const { size, fails } of steps) take(size, fails);
        while (take(70, false));
        assert.ok(copied.every((times) => times === 1));
        assert.equal(ranges.doneBytes, total);
      }),
    );
  });
});

describe("PieceSize", () => {
  it("grows on a fast network, shrinks on a slow one, and has limits", () => {
    const size = new PieceSize(4 * 1024 * 1024);
    for (let i = 0; i < 10; i += 1) size.took(1);
    assert.equal(size.bytes, 4 * 1024 * 1024);
    size.took(100);
    assert.equal(size.bytes, 4 * 1024 * 1024);
    for (let i = 0; i < 10; i += 1) size.took(2000);
    assert.equal(size.bytes, 64 * 1024);
  });
});
