import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runInNewContext } from "node:vm";
import { type DType, dtypeFacts, dtypeNames } from "../../../src/array/dtype.js";
import {
  dtypeOfValues,
  fromHostBytes,
  hostArrayType,
  hostEntriesPerElement,
  toHostBytes,
} from "../../../src/array/host-values.js";

describe("hostArrayType", () => {
  it("has entries that make up one element of every dtype", () => {
    for (const dtype of dtypeNames) {
      const bytes = hostArrayType(dtype).BYTES_PER_ELEMENT * hostEntriesPerElement(dtype);
      assert.equal(bytes, dtypeFacts(dtype).byteSize, dtype);
    }
  });
});

describe("toHostBytes", () => {
  it("views the exact typed array of every dtype without a copy", () => {
    for (const dtype of dtypeNames) {
      const entries = 3 * hostEntriesPerElement(dtype);
      const buffer = new ArrayBuffer(64);
      const values = new (hostArrayType(dtype))(buffer, 16, entries);
      const bytes = toHostBytes(dtype, values as never, 3);
      assert.equal(bytes.buffer, buffer);
      assert.equal(bytes.byteOffset, 16);
      assert.equal(bytes.byteLength, 3 * dtypeFacts(dtype).byteSize);
    }
  });

  it("takes a Node Buffer and arrays of other realms by their type", () => {
    assert.deepEqual([...toHostBytes("uint8", Buffer.from([1, 2]), 2)], [1, 2]);
    const foreign = runInNewContext("Int16Array.of(1, -1)") as Int16Array;
    assert.deepEqual([...toHostBytes("int16", foreign, 2)], [1, 0, 255, 255]);
  });

  it("takes the pixels of a canvas as bytes", () => {
    const pixels = Uint8ClampedArray.of(1, 0, 255).subarray(0, 2);
    for (const dtype of ["uint8", "bool", "float8_e5m2"] as const)
      assert.deepEqual(toHostBytes(dtype, pixels, 2), Uint8Array.of(1, 0));
    assert.equal(dtypeOfValues(pixels), "uint8");
    assert.throws(() => toHostBytes("int8", pixels as never, 2), /found Uint8ClampedArray/);
    assert.throws(() => toHostBytes("bool", Uint8ClampedArray.of(2), 1), RangeError);
  });

  it("encodes a Float32Array and plain numbers for small floats", () => {
    assert.deepEqual([...toHostBytes("float16", Float32Array.of(1), 1)], [0, 0x3c]);
    assert.deepEqual([...toHostBytes("bfloat16", [1, -2], 2)], [0x80, 0x3f, 0, 0xc0]);
    assert.deepEqual([...toHostBytes("float8_e5m2", [1], 1)], [0x3c]);
  });

  it("takes plain values of every kind", () => {
    assert.deepEqual([...toHostBytes("bool", [true, 0, false, 1], 4)], [1, 0, 0, 1]);
    assert.deepEqual([...toHostBytes("int16", [-32768, 32767], 2)], [0, 128, 255, 127]);
    assert.deepEqual(
      [...toHostBytes("uint64", [2n ** 64n - 1n, 1], 2)],
      [...Array(8).fill(255), 1, ...Array(7).fill(0)],
    );
    assert.deepEqual([...toHostBytes("int64", [-(2n ** 63n)], 1)], [0, 0, 0, 0, 0, 0, 0, 128]);
    assert.deepEqual(
      fromHostBytes("float32", toHostBytes("float32", [0.1], 1)),
      Float32Array.of(0.1),
    );
    assert.deepEqual(
      fromHostBytes("complex128", toHostBytes("complex128", [1, 2], 1)),
      Float64Array.of(1, 2),
    );
  });

  const outside: readonly (readonly [DType, readonly unknown[]])[] = [
    ["uint8", [300]],
    ["uint8", [-1]],
    ["int8", [128]],
    ["int8", [-129]],
    ["uint16", [65536]],
    ["int16", [32768]],
    ["int32", [1.5]],
    ["int32", [2 ** 31]],
    ["int32", [Number.NaN]],
    ["uint32", [2 ** 32]],
    ["int64", [2 ** 53]],
    ["int64", [2n ** 63n]],
    ["uint64", [-1n]],
    ["uint64", [1.5]],
    ["bool", [2]],
  ];
  for (const [dtype, values] of outside) {
    it(`refuses ${values[0]} as ${dtype}`, () => {
      assert.throws(() => toHostBytes(dtype, values as never, 1), {
        name: "RangeError",
        message: new RegExp(
          `^Cannot take ${values[0]} as ${dtype}: value 0 must be an integer from `,
        ),
      });
    });
  }

  it("refuses a byte other than 0 and 1 as bool", () => {
    assert.throws(
      () => toHostBytes("bool", Uint8Array.of(1, 0, 2), 3),
      /^RangeError: Cannot take 2 as bool: value 2/,
    );
  });

  it("refuses values of the wrong type, and names the type", () => {
    const wrong: readonly (readonly [DType, unknown, RegExp])[] = [
      ["float32", Float64Array.of(1), /found Float64Array, wanted Float32Array or a plain array/],
      [
        "float16",
        Float64Array.of(1),
        /found Float64Array, wanted Uint16Array, Float32Array \(to be encoded\)/,
      ],
      ["int64", BigUint64Array.of(1n), /found BigUint64Array, wanted BigInt64Array/],
      [
        "int8",
        new DataView(new ArrayBuffer(1)),
        /found an object of class DataView, wanted Int8Array/,
      ],
      ["int8", new ArrayBuffer(1), /found an object of class ArrayBuffer/],
      ["int8", "1", /found "1"/],
      ["int8", null, /found null/],
      ["int8", ["1"], /value 0 is of type string, wanted a number/],
      ["float32", [1n], /value 0 is of type bigint, wanted a number/],
      ["float8_e5m2", [undefined], /value 0 is of type undefined/],
      ["int64", ["1"], /wanted a bigint or a safe integer/],
      ["bool", [null], /value 0 is of type null, wanted a boolean, 0 or 1/],
    ];
    for (const [dtype, values, message] of wrong) {
      assert.throws(() => toHostBytes(dtype, values as never, 1), { name: "TypeError", message });
    }
  });

  it("sees the holes of a sparse array", () => {
    const sparse = [1, 2, 3];
    delete sparse[1];
    for (const dtype of ["int8", "float64", "float16", "bool", "int64"] as const) {
      assert.throws(() => toHostBytes(dtype, sparse.slice(1) as never, 2), TypeError, dtype);
    }
  });

  it("refuses another count, and says how many were found and wanted", () => {
    assert.throws(
      () => toHostBytes("int32", [1, 2, 3], 2),
      /^RangeError: .*found 3 values, wanted 2$/,
    );
    assert.throws(
      () => toHostBytes("complex64", Float32Array.of(1), 1),
      /found 1 values, wanted 2 \(two for each of 1/,
    );
    assert.throws(() => toHostBytes("uint8", new Uint8Array(), 1), RangeError);
  });
});

describe("fromHostBytes", () => {
  it("views aligned bytes and copies others", () => {
    const bytes = new Uint8Array(24);
    const view = fromHostBytes("int32", bytes.subarray(4, 12));
    assert.equal(view.buffer, bytes.buffer);
    assert.equal(view.length, 2);
    bytes.set([1, 0, 0, 0], 5);
    const copy = fromHostBytes("int32", bytes.subarray(5, 13));
    assert.notEqual(copy.buffer, bytes.buffer);
    assert.deepEqual([...copy], [1, 0]);
  });

  it("gives the type of each dtype", () => {
    for (const dtype of dtypeNames) {
      const values = fromHostBytes(dtype, new Uint8Array(32));
      assert.equal(values.constructor, hostArrayType(dtype), dtype);
      assert.equal(values.byteLength, 32);
    }
  });

  it("refuses bytes that are not whole elements", () => {
    assert.throws(
      () => fromHostBytes("complex64", new Uint8Array(12)),
      /^RangeError: .*12 bytes are not whole elements of 8/,
    );
  });
});
