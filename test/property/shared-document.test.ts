import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { hasCode } from "../../src/base/errors.js";
import { parseSharedDocument, type SharedMemoryDocument } from "../../src/wire/shared-document.js";
import { gpuArray, sharedArray } from "../support/messages.js";
import { spoiled } from "../support/spoiled.js";

const documents: readonly SharedMemoryDocument[] = [
  sharedArray,
  { ...sharedArray, kind: "buffer" },
  { ...sharedArray, descriptor: gpuArray, access: "read" },
];

/** The document is accepted unchanged, or there is the one error. */
function assertJudged(given: unknown): void {
  // WHY through JSON: that is how it travels. A list with named properties loses them there.
  const value: unknown = JSON.parse(JSON.stringify(given));
  try {
    assert.deepEqual(parseSharedDocument("a document", value), value);
  } catch (error) {
    assert.ok(hasCode(error, "INVALID_DESCRIPTOR"), `found ${String(error)}`);
  }
}

describe("documents of what is shared, whatever they are", () => {
  it("are judged when they are any value", () => {
    fc.assert(fc.property(fc.jsonValue(), assertJudged), { numRuns: 1000 });
  });

  it("are judged when they are nearly right, and none is taken that is not exactly right", () => {
    fc.assert(fc.property(spoiled(documents), assertJudged), { numRuns: 3000 });
  });
});
