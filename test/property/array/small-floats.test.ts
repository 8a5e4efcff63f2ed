import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  decodeToFloat32,
  encodeFromFloat32,
  type SmallFloat,
} from "../../../src/array/small-floats.js";

for (const dtype of [
  "float16",
  "bfloat16",
  "float8_e4m3fn",
  "float8_e5m2",
] as const satisfies readonly SmallFloat[]) {
  const count = dtype.startsWith("float8") ? 256 : 65536;
  const patterns = dtype.startsWith("float8") ? new Uint8Array(count) : new Uint16Array(count);
  for (let i = 0; i < count; i += 1) patterns[i] = i;
  const decoded = decodeToFloat32(dtype, patterns as never);
  const finite = [...decoded].filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
  const [lowest, largest] = [finite[0]!, finite.at(-1)!];
  const encodeOne = (value: number): number =>
    decodeToFloat32(dtype, encodeFromFloat32(dtype, [value]) as never)[0]!;

  describe(`encodeFromFloat32 of ${dtype}`, () => {
    it("returns every bit pattern except NaN unchanged", () => {
      const encoded = encodeFromFloat32(dtype, decoded);
      for (let i = 0; i < count; i += 1) {
        if (Number.isNaN(decoded[i]))
          assert.ok(Number.isNaN(encodeOne(decoded[i]!)), `NaN pattern ${i}`);
        else assert.equal(encoded[i], i);
      }
    });

    it("gives the nearest value of the format", () => {
      const values = fc.oneof(
        fc.double({ min: lowest, max: largest, noNaN: true }),
        fc
          .tuple(fc.nat({ max: finite.length - 2 }), fc.constantFrom(0.25, 0.5, 0.5000001, 0.75))
          .map(([i, share]) => finite[i]! * (1 - share) + finite[i + 1]! * share),
      );
      fc.assert(
        fc.property(values, (value) => {
          const found = encodeOne(value);
          let above = 0;
          for (let span = finite.length; span >= 1; span = Math.floor(span / 2)) {
            while (above + span < finite.length && finite[above + span]! <= value) above += span;
          }
          const neighbours = [finite[above]!, finite[Math.min(above + 1, finite.length - 1)]!];
          const nearest = Math.min(...neighbours.map((neighbour) => Math.abs(neighbour - value)));
          assert.equal(Math.abs(found - value), nearest, `${value} became ${found}`);
        }),
        { numRuns: 2000 },
      );
    });
  });
}
