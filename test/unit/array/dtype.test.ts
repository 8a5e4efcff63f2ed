import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type DType,
  dtypeFacts,
  dtypeNames,
  isDType,
  parseDType,
} from "../../../src/array/dtype.js";
import { CudaIpcError } from "../../../src/base/errors.js";

describe("parseDType", () => {
  it("knows every dtype by its name", () => {
    assert.equal(dtypeNames.length, 17);
    for (const name of dtypeNames) assert.equal(parseDType(name), name);
  });

  it("suggests the dtype that other languages call so", () => {
    for (const [text, meant] of [
      ["float", "float32"],
      ["Double", "float64"],
      ["half", "float16"],
    ])
      assert.throws(() => parseDType(text as string), {
        message: new RegExp(`Did you mean "${meant}"\\?$`),
      });
  });

  it("refuses an unknown dtype and lists the known ones", () => {
    for (const text of ["float", "Float32", "", "toString", "__proto__"]) {
      assert.throws(
        () => parseDType(text),
        (error) =>
          error instanceof CudaIpcError &&
          error.code === "UNSUPPORTED_DTYPE" &&
          error.message.startsWith(`Unknown dtype ${JSON.stringify(text)}: known are bool, uint8`),
      );
    }
  });

  it("shortens a long text in its message", () => {
    assert.throws(
      () => parseDType("x".repeat(100_000)),
      (error) => error instanceof Error && error.message.length < 400,
    );
  });
});

describe("dtypeFacts", () => {
  it("gives sizes in bytes and the alignment of a component", () => {
    assert.deepEqual(dtypeFacts("bfloat16"), { kind: "float", byteSize: 2, alignment: 2 });
    assert.deepEqual(dtypeFacts("complex64"), { kind: "complex", byteSize: 8, alignment: 4 });
    assert.deepEqual(dtypeFacts("complex128"), { kind: "complex", byteSize: 16, alignment: 8 });
  });

  it("throws TypeError for anything but a dtype", () => {
    assert.throws(() => dtypeFacts("constructor" as DType), TypeError);
  });
});

describe("isDType", () => {
  it("is false for inherited names and for other types", () => {
    for (const value of ["constructor", "__proto__", 1, null, undefined, {}])
      assert.equal(isDType(value), false);
    assert.equal(isDType("int8"), true);
  });
});
