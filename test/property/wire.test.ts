import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { CudaIpcError } from "../../src/base/errors.js";
import {
  decodeReply,
  decodeRequest,
  decodeResult,
  encodeMessage,
  idOf,
} from "../../src/wire/codec.js";
import type { Request } from "../../src/wire/messages.js";
import { requests } from "../support/messages.js";
import { spoiled } from "../support/spoiled.js";

const ALLOWED = new Set(["INVALID_MESSAGE", "PROTOCOL_MISMATCH"]);

/** Checks that any bytes give a message or one of the two errors. */
function assertJudged(decode: () => unknown): void {
  try {
    decode();
  } catch (error) {
    assert.ok(error instanceof CudaIpcError && ALLOWED.has(error.code), `found ${String(error)}`);
  }
}

const request = fc.constantFrom(...requests);

describe("any bytes from the wire", () => {
  it("give a message or an error if they are random", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        assertJudged(() => decodeRequest(bytes));
        assertJudged(() => decodeReply(bytes));
        assert.ok(idOf(bytes) >= 0);
      }),
      { numRuns: 500 },
    );
  });

  it("give a message or an error if they are any JSON", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        assertJudged(() => decodeRequest(Buffer.from(text)));
        assertJudged(() => decodeReply(Buffer.from(text)));
        for (const { op } of requests) assertJudged(() => decodeResult(op, JSON.parse(text)));
      }),
      { numRuns: 500 },
    );
  });

  it("give the exact message or an error if a request is nearly right", () => {
    fc.assert(
      fc.property(spoiled(requests), (message) => {
        const bytes = Buffer.from(JSON.stringify(message));
        assertJudged(() => {
          const decoded = decodeRequest(bytes);
          assert.deepEqual(
            JSON.parse(JSON.stringify(decoded)),
            JSON.parse(JSON.stringify(message)),
          );
        });
      }),
      { numRuns: 2000 },
    );
  });

  it("give a message or an error if bytes of a request were changed", () => {
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

  it("give back every request as it was written", () => {
    const text = fc.string({ maxLength: 128, unit: "grapheme" });
    const id = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER });
    fc.assert(
      fc.property(id, text, text, (number, one, other) => {
        const messages: Request[] = [
          {
            v: 1,
            id: number,
            op: "hello",
            client: { version: one.slice(0, 128), program: other.slice(0, 128) },
          },
          { v: 1, id: number, op: "inspect", name: one },
          { v: 1, id: number, op: "list", after: other },
        ];
        for (const message of messages) {
          // WHY through JSON: half of a surrogate pair has no UTF-8 and becomes a replacement
          // character.
          const wanted = JSON.parse(new TextDecoder().decode(encodeMessage(message))) as Request;
          assert.deepEqual(decodeRequest(encodeMessage(message)), wanted);
          assert.equal(idOf(encodeMessage(message)), number);
        }
      }),
    );
  });
});
