import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { dtypeNames } from "../../../src/array/dtype.js";
import {
  encodeSafetensorsHeader,
  planSafetensors,
} from "../../../src/files/safetensors-encoding.js";
import { parseSafetensorsHeader } from "../../../src/files/safetensors-header.js";
import { expectedArrays, fixturePath } from "./fixture-file.js";

describe("planSafetensors", () => {
  it("puts larger elements first, then sorts by name, without gaps", () => {
    const plan = planSafetensors([
      { name: "z", dtype: "uint8", shape: [3] },
      { name: "b", dtype: "float32", shape: [2] },
      { name: "a", dtype: "float32", shape: [] },
      { name: "m", dtype: "int64", shape: [0] },
    ]);
    assert.deepEqual(
      plan.arrays.map(({ name, byteOffset, byteLength }) => [name, byteOffset, byteLength]),
      [
        ["m", 0, 0],
        ["a", 0, 4],
        ["b", 4, 8],
        ["z", 12, 3],
      ],
    );
    assert.equal(plan.dataByteLength, 15);
  });

  it("refuses duplicate names, __metadata__ and invalid Unicode", () => {
    const array = (name: string) => ({ name, dtype: "int8", shape: [1] }) as const;
    assert.throws(
      () => planSafetensors([array("a"), array("a")]),
      /^TypeError: Two arrays have the name "a"/,
    );
    assert.throws(() => planSafetensors([array("__metadata__")]), TypeError);
    assert.throws(() => planSafetensors([array("\ud800")]), TypeError);
  });

  it("refuses complex128 and invalid shapes", () => {
    assert.throws(() => planSafetensors([{ name: "a", dtype: "complex128", shape: [1] }]), {
      code: "UNSUPPORTED_DTYPE",
    });
    assert.throws(() => planSafetensors([{ name: "a", dtype: "int8", shape: [-1] }]), RangeError);
    const huge = { dtype: "int8", shape: [2 ** 52] } as const;
    assert.throws(
      () => planSafetensors(["a", "b", "c"].map((name) => ({ name, ...huge }))),
      RangeError,
    );
  });
});

describe("encodeSafetensorsHeader", () => {
  for (const [name, arrays] of Object.entries(expectedArrays().safetensors)) {
    it(`gives the bytes of the reference's ${name}`, () => {
      const plan = planSafetensors(
        Object.entries(arrays).map(([name, array]) => ({ name, ...array })),
      );
      const metadata =
        Object.keys(arrays).length > 0 ? [["made by", 'numpy "and" ünicode\n'] as const] : [];
      const header = encodeSafetensorsHeader(plan.arrays, new Map(metadata));
      const reference = readFileSync(fixturePath(`safetensors/${name}`));
      assert.equal(
        Buffer.from(header).toString("latin1"),
        reference.subarray(0, header.length).toString("latin1"),
      );
      assert.equal(header.length + plan.dataByteLength, reference.length);
    });
  }

  it("is read back for every dtype, and begins the data at a multiple of 8", () => {
    const wanted = dtypeNames.filter((dtype) => dtype !== "complex128");
    for (let extra = 0; extra < 8; extra += 1) {
      const plan = planSafetensors(
        wanted.map((dtype) => ({ name: dtype + "x".repeat(extra), dtype, shape: [2, 3] })),
      );
      const header = encodeSafetensorsHeader(plan.arrays, new Map([["k", "v"]]));
      assert.equal(header.length % 8, 0);
      const facts = { fileName: "x", byteLength: header.length + plan.dataByteLength };
      const found = parseSafetensorsHeader(header.subarray(8), facts);
      assert.deepEqual(found.arrays, plan.arrays);
      assert.deepEqual([...found.metadata], [["k", "v"]]);
    }
  });

  it("gives the same bytes for any order of the metadata", () => {
    const forth = encodeSafetensorsHeader([], new Map(Object.entries({ a: "1", b: "2" })));
    const back = encodeSafetensorsHeader([], new Map(Object.entries({ b: "2", a: "1" })));
    assert.deepEqual(forth, back);
  });

  it("refuses a header over the format's limit, and metadata that is not text", () => {
    const long = new Map([["k", "x".repeat(100_000_000)]]);
    assert.throws(() => encodeSafetensorsHeader([], long), { code: "LIMIT_EXCEEDED" });
    assert.throws(() => encodeSafetensorsHeader([], new Map([["k", 1 as never]])), TypeError);
    assert.throws(() => encodeSafetensorsHeader([], new Map([["k", "\udc00"]])), TypeError);
  });
});
