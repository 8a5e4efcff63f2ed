import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { dtypeFacts, dtypeNames, isDType } from "../../../src/array/dtype.js";
import { type ArrayLayout, checkLayout } from "../../../src/array/layout.js";
import { CudaIpcError } from "../../../src/base/errors.js";

const numbers = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: -4, max: 8 }) },
  fc.maxSafeInteger(),
  fc.double(),
  fc.integer({ min: 0, max: 63 }).map((exponent) => 2 ** exponent),
  fc.integer({ min: 0, max: 63 }).map((exponent) => -(2 ** exponent)),
  fc.constantFrom(0, -0, Number.NaN, Infinity, -Infinity, 2 ** 53 - 1, 2 ** 53, -(2 ** 53)),
);
const anything = fc.oneof(
  { weight: 20, arbitrary: numbers },
  fc.constantFrom(null, undefined, "1", [], {}, true, 1n),
);
const lists = fc.oneof({ weight: 20, arbitrary: fc.array(anything, { maxLength: 5 }) }, anything);

const hostile = fc.record({
  dtype: fc.oneof({ weight: 20, arbitrary: fc.constantFrom(...dtypeNames) }, fc.string(), anything),
  shape: lists,
  strides: lists,
  byteOffset: fc.oneof({ weight: 3, arbitrary: fc.constantFrom(0, 8, 16, 32) }, anything),
});

/**
 * Like `hostile`, but with as many strides as sizes and mostly small numbers, so many layouts are
 * nearly valid.
 */
const close = fc.integer({ min: 0, max: 4 }).chain((rank) =>
  fc.record({
    dtype: fc.constantFrom(...dtypeNames),
    shape: fc.array(fc.oneof({ weight: 9, arbitrary: fc.nat({ max: 4 }) }, numbers), {
      minLength: rank,
      maxLength: rank,
    }),
    strides: fc.array(
      fc.oneof({ weight: 9, arbitrary: fc.integer({ min: -6, max: 6 }) }, numbers),
      {
        minLength: rank,
        maxLength: rank,
      },
    ),
    byteOffset: fc.oneof({ weight: 9, arbitrary: fc.nat({ max: 64 }) }, numbers),
  }),
);

/** The model, in integers that do not overflow: every element lies in the memory and is aligned. */
function staysInside(layout: ArrayLayout, availableBytes: number): boolean {
  const { byteSize, alignment } = dtypeFacts(layout.dtype);
  const [size, memory] = [BigInt(byteSize), BigInt(availableBytes)];
  const start = BigInt(layout.byteOffset);
  if (start % BigInt(alignment) !== 0n || start < 0n || start > memory) return false;
  if (layout.shape.includes(0)) return true;
  const reaches = layout.shape.map(
    (count, axis) => (BigInt(count) - 1n) * BigInt(layout.strides[axis]!) * size,
  );
  const low = reaches.reduce((sum, reach) => (reach < 0n ? sum + reach : sum), start);
  const high = reaches.reduce((sum, reach) => (reach > 0n ? sum + reach : sum), start) + size;
  const bytes = layout.shape.reduce((product, count) => product * BigInt(count), size);
  return low >= 0n && high <= memory && bytes <= memory;
}

/** The fields have types and ranges that the model accepts. */
function isWellFormed(layout: ArrayLayout): boolean {
  const { dtype, shape, strides, byteOffset } = layout;
  return (
    isDType(dtype) &&
    Array.isArray(shape) &&
    Array.isArray(strides) &&
    shape.length === strides.length &&
    [...shape, ...strides, byteOffset].every((value) => Number.isSafeInteger(value)) &&
    shape.every((size) => size >= 0)
  );
}

function accepts(layout: ArrayLayout, availableBytes: number): boolean {
  try {
    checkLayout(layout, availableBytes);
    return true;
  } catch (error) {
    assert.ok(error instanceof CudaIpcError, String(error));
    assert.ok(error.code === "INVALID_DESCRIPTOR" || error.code === "UNSUPPORTED_DTYPE");
    return false;
  }
}

describe("checkLayout", () => {
  it("never accepts a layout that leaves the memory, and throws only its own errors", () => {
    fc.assert(
      fc.property(hostile, fc.nat({ max: 1024 }), (value, availableBytes) => {
        const layout = value as unknown as ArrayLayout;
        if (accepts(layout, availableBytes))
          assert.ok(isWellFormed(layout) && staysInside(layout, availableBytes));
      }),
      { numRuns: 5000 },
    );
  });

  it("accepts exactly what a model in big integers accepts", () => {
    let accepted = 0;
    fc.assert(
      fc.property(close, fc.nat({ max: 512 }), (layout, availableBytes) => {
        const huge = (sizes: readonly number[]) =>
          sizes.reduce((product, size) => product * Math.max(1, size), 1) >= 2 ** 53;
        const wanted =
          isWellFormed(layout) && staysInside(layout, availableBytes) && !huge(layout.shape);
        assert.equal(accepts(layout, availableBytes), wanted);
        if (wanted) accepted += 1;
      }),
      { numRuns: 5000 },
    );
    assert.ok(accepted > 100, `only ${accepted} cases were acceptable, which tests little`);
  });
});
