import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type DType, dtypeNames } from "../../../src/array/dtype.js";
import { type HostValues, toHostBytes } from "../../../src/array/host-values.js";
import { picturePixels, specialColours } from "../../../src/array/picture-pixels.js";

function pixelsOf(dtype: DType, values: readonly number[], channels: 1 | 3 | 4 = 1) {
  const count = dtype.startsWith("complex") ? values.length / 2 : values.length;
  const bytes = toHostBytes(dtype, values as HostValues<DType>, count);
  const { rgba, ...facts } = picturePixels(dtype, bytes, channels);
  const pixels = Array.from({ length: rgba.length / 4 }, (_, i) => [
    ...rgba.subarray(4 * i, 4 * i + 4),
  ]);
  return { pixels, ...facts };
}

const greys = (...levels: number[]) => levels.map((level) => [level, level, level, 255]);

describe("picturePixels", () => {
  it("draws bytes and bools as they are, and brightnesses from 0 to 1", () => {
    assert.deepEqual(pixelsOf("uint8", [0, 7, 255]).pixels, greys(0, 7, 255));
    assert.deepEqual(pixelsOf("bool", [1, 1, 0]).pixels, greys(255, 255, 0));
    assert.deepEqual(pixelsOf("float16", [0, 0.5, 0.75]).pixels, greys(0, 128, 191));
  });

  it("draws other values from the lowest to the highest", () => {
    const found = pixelsOf("float32", [-2, 0, 2]);
    assert.deepEqual([found.pixels, found.darkest, found.brightest], [greys(0, 128, 255), -2, 2]);
    assert.deepEqual(pixelsOf("int64", [10, 30, 20]).pixels, greys(0, 255, 128));
    assert.deepEqual(pixelsOf("float32", [0, 0.001]).pixels, greys(0, 255));
    assert.deepEqual(pixelsOf("float32", [7, 7]).pixels, greys(0, 0));
  });

  it("draws the magnitude of complex values", () => {
    assert.deepEqual(pixelsOf("complex64", [3, 4, 0, 0, 0, 10]).pixels, greys(128, 0, 255));
  });

  it("draws NaN and infinities in colours of their own, and without them all else", () => {
    const found = pixelsOf("float32", [Number.NaN, Infinity, -Infinity, 1, 3]);
    const { nan, positiveInfinite, negativeInfinite } = specialColours;
    const special = [nan, positiveInfinite, negativeInfinite].map((colour) => [...colour, 255]);
    assert.deepEqual(found.pixels, [...special, ...greys(0, 255)]);
    assert.equal(found.range.nanCount, 1);
    const [pixel] = pixelsOf("float32", [1, Infinity, Number.NaN], 3).pixels;
    assert.deepEqual(pixel, [...nan, 255]);
    const nothing = pixelsOf("float64", [Number.NaN, Number.NaN]);
    assert.deepEqual(nothing.pixels, [special[0], special[0]]);
  });

  it("draws three channels as colours, and a fourth as alpha if it can be one", () => {
    assert.deepEqual(pixelsOf("float32", [0, 0.5, 1], 3).pixels, [[0, 128, 255, 255]]);
    assert.deepEqual(pixelsOf("float32", [0, 51, 255], 3).pixels, [[0, 51, 255, 255]]);
    assert.deepEqual(pixelsOf("uint8", [1, 2, 3, 4], 4).pixels, [[1, 2, 3, 4]]);
    const latent = pixelsOf("float32", [-1, 0, 1, -1], 4);
    assert.deepEqual([latent.pixels, latent.hasAlpha], [[[0, 128, 255, 255]], false]);
  });

  it("draws any bits of all dtypes", () => {
    for (const dtype of dtypeNames) {
      const bytes = Uint8Array.from({ length: 1600 }, (_, i) =>
        dtype === "bool" ? i & 1 : (i * 73) & 255,
      );
      const { rgba } = picturePixels(dtype, bytes, 1);
      assert.ok(
        rgba.every((level, i) => i % 4 !== 3 || level === 255),
        dtype,
      );
    }
  });
});
