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

/** Checks that the document is accepted unchanged, or refused with the one error. */
function assertJudged(given: unknown): void {
  // WHY through JSON: documents travel as JSON, where a list loses its named properties.
  const value: unknown = JSON.parse(JSON.stringify(given));
  try {
    assert.deepEqual(parseSharedDocument("a document", value), value);
  } catch (error) {
    assert.ok(hasCode(error, "INVALID_DESCRIPTOR"), `found ${String(error)}`);
  }
}

describe("any document of a shared object", () => {
  it("is accepted unchanged or refused if it is any value", () => {
    fc.assert(fc.property(fc.jsonValue(), assertJudged), { numRuns: 1000 });
  });

  it("is accepted unchanged or refused if it is nearly right", () => {
    fc.assert(fc.property(spoiled(documents), assertJudged), { numRuns: 3000 });
  });
});
