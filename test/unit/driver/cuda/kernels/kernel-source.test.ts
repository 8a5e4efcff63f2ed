import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { kernelNames, kernelSource } from "../../../../../src/driver/cuda/kernels/kernel-source.js";
import { PtxKernel } from "../../../../support/ptx-machine.js";
import { assemble, findPtxas, knownArchitectures } from "./ptxas.js";

const kinds = ["b8", "b16", "b32", "b64", "f16", "bf16", "f32", "f64"];
const dtypes =
  "uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64".split(" ");

describe("the source of the kernels", () => {
  const source = kernelSource();

  it("has a kernel of each kind, once", () => {
    const wanted = [
      "fill_b64",
      ...kinds.flatMap((kind) => [`iota_${kind}`, `affine_${kind}`]),
      ...[1, 2, 4, 8].map((unit) => `compare_${unit}`),
      ...dtypes.map((dtype) => `close_${dtype}`),
      "checksum",
      ...dtypes.map((dtype) => `statistics_${dtype}`),
    ];
    assert.deepEqual(kernelNames(source).sort(), wanted.sort());
    assert.deepEqual([...PtxKernel.parse(source).keys()].sort(), wanted.sort());
  });

  it("uses only PTX 7.0 for sm_50, which drivers from 525 on compile for every GPU", () => {
    assert.match(source, /^\.version 7\.0$/m);
    assert.match(source, /^\.target sm_50$/m);
    assert.match(source, /^\.address_size 64$/m);
    assert.ok(/^[\x20-\x7e\n]*$/.test(source), "plain ASCII");
  });

  it("rounds each product and sum of floats explicitly, and keeps subnormal numbers", () => {
    const arithmetic = source.match(/\b(add|sub|mul|mad|fma)\.\S*f(32|64)\b/g) ?? [];
    assert.ok(arithmetic.length > 20);
    for (const it of arithmetic) assert.match(it, /^(add|mul)\.rn\.f(32|64)$/);
    assert.doesNotMatch(source, /\.ftz|\.approx|\.sat/);
  });
});

const ptxas = findPtxas();
const architectures = [
  "sm_50",
  "sm_60",
  "sm_70",
  "sm_75",
  "sm_80",
  "sm_86",
  "sm_89",
  "sm_90",
  "sm_100",
  "sm_120",
];

if (typeof ptxas === "string") {
  it("the kernels in ptxas", { skip: process.env.REQUIRE_PTXAS === "1" ? false : ptxas }, () =>
    assert.fail(ptxas),
  );
} else {
  describe("the kernels in ptxas", () => {
    const known = knownArchitectures(ptxas.path, architectures);
    const source = kernelSource();
    it("knows some kinds of GPU", () => assert.ok(known.length > 3, known.join()));
    for (const architecture of known) {
      it(`are assembled for ${architecture} without a warning`, () => {
        assert.deepEqual(assemble(ptxas.path, source, architecture), { status: 0, words: "" });
      });
    }

    it("are refused with a mistake in them", () => {
      const { status, words } = assemble(
        ptxas.path,
        source.replace("mul.rn.f32 %x", "mul.rn.f32 %y"),
        "sm_90",
      );
      assert.notEqual(status, 0);
      assert.match(words, /%y/);
    });
  });
}
