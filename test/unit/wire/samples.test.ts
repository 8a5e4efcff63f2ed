/** The samples for hostile messages: they reach every field and every choice of the protocol. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { requestSchema, resultSchemas } from "../../../src/wire/messages.js";
import { requests, results } from "../../support/messages.js";
import { uncovered } from "../../support/sample-coverage.js";

describe("the samples of test/support/messages.ts", () => {
  it("hold each operation with every field and choice of its request", () => {
    const ofOp = requestSchema.options.flatMap((option) => {
      const op = option.entries.op.literal;
      return uncovered(
        option,
        requests.filter((request) => request.op === op),
        op,
      );
    });
    assert.deepEqual(ofOp, []);
  });

  for (const [op, schema] of Object.entries(resultSchemas)) {
    it(`hold every field and choice of the reply to "${op}", and nothing else`, () => {
      const samples = results[op as keyof typeof results];
      for (const sample of samples) assert.ok(v.is(schema, sample), JSON.stringify(sample));
      assert.deepEqual(uncovered(schema, samples), []);
    });
  }
});

describe("uncovered", () => {
  const schema = v.variant("op", [
    v.strictObject({
      op: v.literal("a"),
      way: v.picklist(["in", "out"]),
      name: v.optional(v.string()),
    }),
    v.strictObject({
      op: v.literal("b"),
      items: v.array(v.strictObject({ size: v.nullable(v.number()) })),
    }),
  ]);

  it("names operations, fields and choices without a sample", () => {
    assert.deepEqual(uncovered(schema, [{ op: "a", way: "in" }]), [
      "message: choice 1.way: out",
      "message: choice 1.name",
      "message: choice 2",
    ]);
    const almost = [
      { op: "a", way: "in", name: "x" },
      { op: "a", way: "out" },
      { op: "b", items: [{ size: null }] },
    ];
    assert.deepEqual(uncovered(schema, almost), ["message: choice 2.items[].size"]);
    assert.deepEqual(uncovered(schema, [...almost, { op: "b", items: [{ size: 1 }] }]), []);
  });
});
