import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  decodeToFloat32,
  encodeFromFloat32,
  type SmallFloat,
} from "../../../src/array/small-floats.js";
import { smallFloatTables } from "../files/fixture-file.js";

const names: readonly SmallFloat[] = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"];

function bitsArray(dtype: SmallFloat, bits: readonly number[]): never {
  return (dtype.includes("float8") ? Uint8Array : Uint16Array).from(bits) as never;
}

/** Reduces each NaN to one with its sign. Which NaN a conversion gives is no promise. */
function withoutPayload(bits: number): string | number {
  return (bits & 0x7fffffff) > 0x7f800000 ? `${bits > 0x7fffffff ? "-" : "+"}NaN` : bits;
}

for (const name of names) {
  const table = smallFloatTables()[name]!;

  describe(`decodeToFloat32 of ${name}`, () => {
    it("gives the bits that ml_dtypes gives", () => {
      const decoded = decodeToFloat32(name, bitsArray(name, table.patterns));
      const found = [...new Uint32Array(decoded.buffer)].map(withoutPayload);
      assert.deepEqual(found, table.decodedBits.map(withoutPayload));
    });
  });

  describe(`encodeFromFloat32 of ${name}`, () => {
    const source = new Float32Array(Uint32Array.from(table.float32Bits).buffer);
    const decodedBits = (bits: number) =>
      withoutPayload(new Uint32Array(decodeToFloat32(name, bitsArray(name, [bits])).buffer)[0]!);
    const comparable = (bits: number) =>
      typeof decodedBits(bits) === "string" ? decodedBits(bits) : bits;

    it("rounds a Float32Array as ml_dtypes does, ties and overflow included", () => {
      const found = [...encodeFromFloat32(name, source)].map(comparable);
      assert.deepEqual(found, table.encoded.map(comparable));
    });

    it("gives the same for plain numbers", () => {
      const numbers = [...source].filter((value) => !Number.isNaN(value));
      const wanted = table.encoded.filter((_, i) => !Number.isNaN(source[i]));
      assert.deepEqual(
        [...encodeFromFloat32(name, numbers)].map(comparable),
        wanted.map(comparable),
      );
    });
  });
}

describe("encodeFromFloat32", () => {
  it("keeps the sign of zero and of NaN in a Float32Array", () => {
    const negativeNaN = new Float32Array(Uint32Array.of(0xffc00000).buffer);
    assert.deepEqual([...encodeFromFloat32("float16", negativeNaN)], [0xfe00]);
    assert.deepEqual([...encodeFromFloat32("float8_e4m3fn", Float32Array.of(-0, 0))], [0x80, 0]);
  });

  it("makes too large values infinite, and NaN in float8_e4m3fn", () => {
    assert.deepEqual(
      [...encodeFromFloat32("float16", [65519.99, 65520, -1e300])],
      [0x7bff, 0x7c00, 0xfc00],
    );
    assert.deepEqual(
      [...encodeFromFloat32("float8_e4m3fn", [448, 464, 464.1, -Infinity])],
      [0x7e, 0x7e, 0x7f, 0xff],
    );
  });

  it("rounds a float64 once: halfway and a little more goes up", () => {
    const halfwayAndABit = 1 + 2 ** -11 + 2 ** -40;
    assert.equal(encodeFromFloat32("float16", [halfwayAndABit])[0], 0x3c01);
    assert.equal(encodeFromFloat32("float16", [Math.fround(halfwayAndABit)])[0], 0x3c00);
    assert.equal(encodeFromFloat32("float16", [-halfwayAndABit])[0], 0xbc01);
    assert.equal(encodeFromFloat32("float16", [1 + 2 ** -11 - 2 ** -40])[0], 0x3c00);
    assert.equal(encodeFromFloat32("bfloat16", [2 ** -140 + 2 ** -190])[0], 0);
  });
});
