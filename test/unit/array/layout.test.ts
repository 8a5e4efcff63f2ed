import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type ArrayLayout,
  arrayByteLength,
  byteSpan,
  checkLayout,
  contiguousLayout,
  contiguousStrides,
  elementCount,
  fortranStrides,
  isContiguous,
} from "../../../src/array/layout.js";
import { CudaIpcError } from "../../../src/base/errors.js";

const layout = (changes: Partial<Record<keyof ArrayLayout, unknown>> = {}): ArrayLayout =>
  ({ dtype: "int32", shape: [2, 3], strides: [3, 1], byteOffset: 0, ...changes }) as ArrayLayout;

describe("elementCount", () => {
  it("multiplies, with 1 for no axes and 0 for an empty one", () => {
    assert.equal(elementCount([]), 1);
    assert.equal(elementCount([2, 3, 4]), 24);
    assert.equal(elementCount([2, 0, 4]), 0);
    assert.equal(elementCount([2 ** 26, 2 ** 26]), 2 ** 52);
  });

  it("refuses counts that are not exact", () => {
    assert.throws(
      () => elementCount([2 ** 27, 2 ** 26]),
      /^RangeError: shape .* has over 2\^53 - 1 elements/,
    );
    assert.throws(() => elementCount([10 ** 9, 10 ** 9]), RangeError);
    assert.throws(() => elementCount([0, 2 ** 27, 2 ** 27]), RangeError);
  });

  it("refuses sizes that are not integers from 0, and too many axes", () => {
    for (const size of [-1, 1.5, Number.NaN, Infinity, 1e18]) {
      assert.throws(() => elementCount([2, size]), /^RangeError: shape\[1\] must be an integer/);
    }
    for (const size of ["2", null, undefined]) {
      assert.throws(
        () => elementCount([2, size as never]),
        /^TypeError: shape\[1\] must be an integer/,
      );
    }
    assert.throws(
      () => elementCount(6 as never),
      /^TypeError: shape must be an array of integers .*, not 6/,
    );
    assert.equal(elementCount(Array(32).fill(1)), 1);
    assert.throws(
      () => elementCount(Array(33).fill(1)),
      /^RangeError: shape has 33 dimensions, the limit is 32/,
    );
  });
});

describe("arrayByteLength", () => {
  it("refuses more bytes than can be counted", () => {
    assert.equal(arrayByteLength("complex128", [3]), 48);
    assert.throws(() => arrayByteLength("complex128", [2 ** 50]), RangeError);
  });
});

describe("contiguousStrides and fortranStrides", () => {
  it("step over the axes after, or before", () => {
    assert.deepEqual(contiguousStrides([2, 3, 4]), [12, 4, 1]);
    assert.deepEqual(fortranStrides([2, 3, 4]), [1, 2, 6]);
    assert.deepEqual(contiguousStrides([]), []);
    assert.deepEqual(contiguousStrides([3, 0, 2]), [2, 2, 1]);
  });
});

describe("isContiguous", () => {
  it("checks order and gaps, and ignores axes of size 1", () => {
    assert.equal(isContiguous(layout()), true);
    assert.equal(isContiguous(layout({ byteOffset: 400 })), true);
    assert.equal(isContiguous(layout({ strides: [1, 2] })), false);
    assert.equal(isContiguous(layout({ strides: [4, 1] })), false);
    assert.equal(isContiguous(layout({ shape: [1, 3], strides: [99, 1] })), true);
    assert.equal(isContiguous(layout({ shape: [0, 3], strides: [99, -7] })), true);
    assert.equal(isContiguous(layout({ shape: [3], strides: [-1], byteOffset: 8 })), false);
  });
});

describe("byteSpan", () => {
  it("covers the first to the last byte, for strides in any direction", () => {
    assert.deepEqual(byteSpan(layout({ byteOffset: 8 })), { low: 8, high: 32 });
    assert.deepEqual(byteSpan(layout({ strides: [-3, 2], byteOffset: 12 })), { low: 0, high: 32 });
    assert.deepEqual(byteSpan(layout({ shape: [0, 3], byteOffset: 8 })), { low: 8, high: 8 });
    assert.deepEqual(byteSpan(layout({ shape: [], strides: [] })), { low: 0, high: 4 });
  });

  it("refuses spans that cannot be counted exactly", () => {
    assert.throws(() => byteSpan(layout({ strides: [2 ** 52, 1] })), RangeError);
    assert.throws(() => byteSpan(layout({ strides: [-(2 ** 52), 1] })), RangeError);
    assert.throws(
      () => byteSpan(layout({ byteOffset: Number.MAX_SAFE_INTEGER - 3, shape: [], strides: [] })),
      RangeError,
    );
  });
});

describe("checkLayout", () => {
  it("accepts a layout that fits exactly", () => {
    checkLayout(layout(), 24);
    checkLayout(layout({ byteOffset: 8 }), 32);
    checkLayout(layout({ strides: [1, 2] }), 24);
    checkLayout(layout({ shape: [6], strides: [-1], byteOffset: 20 }), 24);
    checkLayout(layout({ shape: [0, 3], byteOffset: 24 }), 24);
    checkLayout(contiguousLayout("uint8", [7], 1), 8);
  });

  const refused: readonly (readonly [string, Partial<Record<keyof ArrayLayout, unknown>>])[] = [
    ["one byte past the end", { byteOffset: 4 }],
    ["an element before the start", { shape: [2], strides: [-1], byteOffset: 0 }],
    ["a negative offset", { byteOffset: -4 }],
    ["an offset past the end of an empty array", { shape: [0], strides: [1], byteOffset: 28 }],
    ["an offset that is not aligned", { shape: [1], strides: [1], byteOffset: 2 }],
    ["a fraction as offset", { byteOffset: 0.5 }],
    ["NaN as offset", { byteOffset: Number.NaN }],
    ["text as offset", { byteOffset: "0" }],
    ["fewer strides than axes", { strides: [1] }],
    ["more strides than axes", { strides: [3, 1, 1] }],
    ["a fraction as stride", { strides: [3, 0.5] }],
    ["text as stride", { strides: ["3", 1] }],
    ["a stride for an axis of size 1 that is NaN", { shape: [1], strides: [Number.NaN] }],
    ["a negative size", { shape: [-2, -3] }],
    ["a fraction as size", { shape: [1.5, 2] }],
    ["10^18 elements", { shape: [1e9, 1e9], strides: [1, 1] }],
    ["a size over 2^53", { shape: [1e18], strides: [1] }],
    ["sizes whose product wraps around 64 bits", { shape: [2 ** 33, 2 ** 33], strides: [0, 0] }],
    ["strides that cancel out beyond 2^53", { strides: [2 ** 53 - 1, -(2 ** 53 - 1)] }],
    ["more elements than memory by strides of 0", { shape: [1000], strides: [0] }],
    ["a shape that is no array", { shape: { length: 2, 0: 2, 1: 3 } }],
    ["strides that are no array", { strides: null }],
    ["a hole in the shape", { shape: [2, undefined] }],
    ["33 axes", { shape: Array(33).fill(1), strides: Array(33).fill(1) }],
  ];
  for (const [what, changes] of refused) {
    it(`refuses ${what}`, () => {
      assert.throws(
        () => checkLayout(layout(changes), 24),
        (error) =>
          error instanceof CudaIpcError &&
          error.code === "INVALID_DESCRIPTOR" &&
          error.message.startsWith("Cannot accept array layout: "),
      );
    });
  }

  it("says what was found and wanted", () => {
    assert.throws(
      () => checkLayout(layout({ byteOffset: 4 }), 24),
      /it touches bytes 4 to 28, memory has 24 bytes$/,
    );
  });

  it("refuses an unknown dtype, and an invalid memory size", () => {
    assert.throws(() => checkLayout(layout({ dtype: "int128" }), 24), {
      code: "UNSUPPORTED_DTYPE",
    });
    assert.throws(() => checkLayout(layout({ dtype: 5 }), 24), { code: "UNSUPPORTED_DTYPE" });
    assert.throws(() => checkLayout(layout(), Number.NaN), { code: "INVALID_DESCRIPTOR" });
    assert.throws(() => checkLayout(layout(), Infinity), { code: "INVALID_DESCRIPTOR" });
  });
});
