import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ptxEntries } from "../../../../src/driver/cuda/ptx-entries.js";

function sizes(text: string): Record<string, string | undefined> {
  const entries = [...ptxEntries(text)];
  return Object.fromEntries(
    entries.map(([name, parameters]) => [
      name,
      parameters?.map((it) => `${it.byteOffset}+${it.byteLength}`).join(" "),
    ]),
  );
}

describe("ptxEntries", () => {
  it("lists kernels in order, with the sizes and offsets of their parameters", () => {
    const text = `
.version 9.5
.target sm_75
	// .globl	k
.visible .entry k(
	.param .u64 k_param_0,
	.param .u8 k_param_1,
	.param .f64 k_param_2,
	.param .align 4 .b8 k_param_3[12],
	.param .u16 k_param_4
)
{ ret; }
.weak .entry _Z1xPKf$x(.param .u64 .ptr .global .align 4 a, .param .s32 b) { ret; }
.entry none { ret; }
.visible .entry empty() .maxntid 128, 1, 1 { ret; }`;
    assert.deepEqual(sizes(text), {
      k: "0+8 8+1 16+8 24+12 36+2",
      _Z1xPKf$x: "0+8 8+4",
      none: "",
      empty: "",
    });
  });

  const types: readonly [declaration: string, byteLength: number][] = [
    [".b8", 1],
    [".s16", 2],
    [".f16", 2],
    [".f16x2", 4],
    [".f32", 4],
    [".b64", 8],
    [".b128", 16],
  ];
  for (const [type, byteLength] of types) {
    it(`knows the type ${type}`, () => {
      assert.deepEqual(ptxEntries(`.entry k(.param ${type} a)`).get("k"), [
        { byteOffset: 0, byteLength },
      ]);
    });
  }

  it("lists a kernel without its parameters if it does not understand them", () => {
    for (const strange of [
      ".param .texref a",
      ".reg .u32 a",
      ".param .v2 .f32 a",
      ".param .u32 a b",
      ".param .u33 a",
    ]) {
      const entries = ptxEntries(`.entry k(${strange}) {}  .entry m(.param .u32 a) {}`);
      assert.deepEqual([entries.has("k"), entries.get("k")], [true, undefined], strange);
      assert.equal(entries.get("m")?.length, 1);
    }
  });

  it("ignores comments, strings and other words", () => {
    const text = `// .entry a()
/* .entry b()
 .entry c() */
.file 1 ".entry d()"
.pragma "// no comment";
.func e(.param .u32 entry)
.visible .entry f() { .pragma "nounroll"; }`;
    assert.deepEqual(sizes(text), { f: "" });
    assert.deepEqual(sizes(""), {});
    assert.deepEqual(sizes(".entry"), {});
  });

  it("takes time linear in the length of the text", () => {
    const hostile = `${"/*".repeat(100_000)}${'"'.repeat(100_000)}${".entry k(".repeat(50_000)}`;
    assert.ok(ptxEntries(hostile).size <= 1);
  });
});
