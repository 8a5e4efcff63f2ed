import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { CudaIpcError } from "../../src/base/errors.js";
import { decodeReply, decodeRequest, decodeResult, encodeMessage, idOf } from "../../src/wire/codec.js";
import type { Request } from "../../src/wire/messages.js";
import { requests } from "../support/messages.js";

const ALLOWED = new Set(["INVALID_MESSAGE", "PROTOCOL_MISMATCH"]);

/** Whatever the bytes are: a message, or one of the two errors. */
function assertJudged(decode: () => unknown): void {
  try {
    decode();
  } catch (error) {
    assert.ok(error instanceof CudaIpcError && ALLOWED.has(error.code), `found ${String(error)}`);
  }
}

const request = fc.constantFrom(...requests);

/** One value somewhere in a document replaced, removed or added. */
const spoiled = fc
  .tuple(request, fc.nat(), fc.option(fc.jsonValue(), { nil: undefined }), fc.boolean())
  .map(([original, at, value, add]) => {
    const copy = structuredClone(original) as unknown as Record<string, unknown>;
    const places: [Record<string, unknown>, string][] = [];
    const walk = (node: unknown) => {
      if (typeof node !== "object" || node === null) return;
      for (const key of Object.keys(node)) {
        places.push([node as Record<string, unknown>, key]);
        walk((node as Record<string, unknown>)[key]);
      }
    };
    walk(copy);
    const [holder, key] = places[at % places.length] as [Record<string, unknown>, string];
    if (add) holder[`${key}x`] = value ?? 1;
    else if (value === undefined) delete holder[key];
    else holder[key] = value;
    return copy;
  });

describe("the wire, whatever comes off it", () => {
  it("judges any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        assertJudged(() => decodeRequest(bytes));
        assertJudged(() => decodeReply(bytes));
        assert.ok(idOf(bytes) >= 0);
      }),
      { numRuns: 500 },
    );
  });

  it("judges any JSON", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        assertJudged(() => decodeRequest(Buffer.from(text)));
        assertJudged(() => decodeReply(Buffer.from(text)));
        for (const { op } of requests) assertJudged(() => decodeResult(op, JSON.parse(text)));
      }),
      { numRuns: 500 },
    );
  });

  it("judges requests that are nearly right, and takes none that is not exactly right", () => {
    fc.assert(
      fc.property(spoiled, (message) => {
        const bytes = Buffer.from(JSON.stringify(message));
        assertJudged(() => {
          const decoded = decodeRequest(bytes);
          assert.deepEqual(JSON.parse(JSON.stringify(decoded)), JSON.parse(JSON.stringify(message)));
        });
      }),
      { numRuns: 2000 },
    );
  });

  it("judges requests of which bytes were changed", () => {
    fc.assert(
      fc.property(
        request,
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 }),
        (message, changes) => {
          const bytes = encodeMessage(message).slice();
          for (const [at, value] of changes) bytes[at % bytes.length] = value;
          assertJudged(() => decodeRequest(bytes));
        },
      ),
      { numRuns: 1000 },
    );
  });

  it("reads back every request as it was written", () => {
    const text = fc.string({ maxLength: 128, unit: "grapheme" });
    const id = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER });
    fc.assert(
      fc.property(id, text, text, (number, one, other) => {
        const messages: Request[] = [
          { v: 1, id: number, op: "hello", client: { version: one.slice(0, 128), program: other.slice(0, 128) } },
          { v: 1, id: number, op: "inspect", name: one },
          { v: 1, id: number, op: "list", after: other },
        ];
        for (const message of messages) {
          // WHY through JSON: half of a surrogate pair has no UTF-8 and becomes a replacement character.
          const wanted = JSON.parse(new TextDecoder().decode(encodeMessage(message))) as Request;
          assert.deepEqual(decodeRequest(encodeMessage(message)), wanted);
          assert.equal(idOf(encodeMessage(message)), number);
        }
      }),
    );
  });
});
