import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type ArithmeticDType,
  arithmeticDTypes,
  checkArithmetic,
  computeByteLength,
  elementBytes,
  type Scalar,
  ScalarWords,
  storeComputed,
} from "../../../src/array/arithmetic.js";
import { dtypes } from "../../../src/array/dtype.js";
import { hasCode } from "../../../src/base/errors.js";

const hex = (bytes: Uint8Array) => Buffer.from(bytes.toReversed()).toString("hex");

/** The bytes stored in the second of three words. The other two must not change. */
function computeBytes(what: string, dtype: ArithmeticDType, value: Scalar): Uint8Array {
  const words = new ScalarWords(3);
  words.bytes.fill(0xee);
  storeComputed(what, dtype, value, words, 1);
  const byteLength = computeByteLength(dtype);
  const others = [...words.bytes.subarray(0, 8), ...words.bytes.subarray(8 + byteLength)];
  assert.deepEqual(new Set(others), new Set([0xee]));
  return words.bytes.subarray(8, 8 + byteLength);
}

describe("values of arithmetic dtypes", () => {
  it("are bytes of the element, rounded to nearest", () => {
    assert.equal(hex(elementBytes("v", "int8", -1)), "ff");
    assert.equal(hex(elementBytes("v", "uint16", 65535)), "ffff");
    assert.equal(hex(elementBytes("v", "int64", -(2n ** 63n))), "8000000000000000");
    assert.equal(hex(elementBytes("v", "uint64", 5)), "0000000000000005");
    assert.equal(hex(elementBytes("v", "float16", 1 / 3)), "3555");
    assert.equal(hex(elementBytes("v", "bfloat16", 1e300)), "7f80");
    assert.equal(hex(elementBytes("v", "float32", -0)), "80000000");
  });

  it("have one NaN", () => {
    const nans = {
      float16: "7e00",
      bfloat16: "7fc0",
      float32: "7fc00000",
      float64: "7ff8000000000000",
    } as const;
    for (const [dtype, bits] of Object.entries(nans)) {
      assert.equal(hex(elementBytes("v", dtype as keyof typeof nans, Number.NaN)), bits);
      const computed = dtype === "float64" ? bits : nans.float32;
      assert.equal(hex(computeBytes("v", dtype as keyof typeof nans, Number.NaN)), computed);
    }
  });

  it("are bytes of the compute type", () => {
    assert.equal(hex(computeBytes("v", "int8", -2)), "fffffffe");
    assert.equal(hex(computeBytes("v", "uint16", 65535)), "0000ffff");
    assert.equal(hex(computeBytes("v", "float16", 1)), "3f800000");
    assert.equal(hex(computeBytes("v", "float64", 1)), "3ff0000000000000");
    assert.equal(hex(computeBytes("v", "int64", -1n)), "ffffffffffffffff");
    assert.equal(hex(computeBytes("v", "uint64", 2 ** 53 - 1)), "001fffffffffffff");
    assert.equal(hex(computeBytes("v", "float32", -0)), "80000000");
    assert.equal(hex(computeBytes("v", "bfloat16", 1e300)), "7f800000");
  });

  it("are refused, with their name, if the dtype has no such value", () => {
    for (const dtype of arithmeticDTypes) {
      assert.throws(
        () => elementBytes("Start", dtype, "1" as unknown as number),
        /^TypeError: Start must be /,
      );
      if (dtypes[dtype].kind !== "float") {
        for (const value of [0.5, Number.NaN, Number.POSITIVE_INFINITY, 1e30]) {
          assert.throws(
            () => computeBytes("Step", dtype, value),
            /^RangeError: Step must be an integer from /,
          );
        }
      }
    }
    assert.throws(() => computeBytes("v", "uint64", -1n), RangeError);
    assert.throws(() => computeBytes("v", "int64", 2n ** 63n), RangeError);
    assert.throws(() => computeBytes("v", "float32", 1n), TypeError);
    assert.throws(() => computeBytes("v", "int32", 1n), TypeError);
  });

  it("exclude the other dtypes", () => {
    assert.equal(checkArithmetic("fill", "float16"), "float16");
    for (const dtype of ["bool", "float8_e5m2", "complex64"] as const) {
      assert.throws(
        () => checkArithmetic("fill", dtype),
        (error) => hasCode(error, "UNSUPPORTED_DTYPE"),
      );
    }
    assert.throws(() => checkArithmetic("fill", "float" as "float32"), TypeError);
  });
});
