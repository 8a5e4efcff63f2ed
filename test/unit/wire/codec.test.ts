import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import {
  decodeReply,
  decodeRequest,
  decodeResult,
  encodeMessage,
  idOf,
} from "../../../src/wire/codec.js";
import type { Request } from "../../../src/wire/messages.js";
import { requests } from "../../support/messages.js";

function bytesOf(value: unknown): Uint8Array {
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value));
}

describe("decodeRequest", () => {
  for (const request of requests) {
    it(`reads back a ${request.op} as it was written`, () => {
      assert.deepEqual(decodeRequest(encodeMessage(request)), request);
    });
  }

  const broken: Record<string, unknown> = {
    "what is not JSON": "{",
    "no bytes": "",
    null: "null",
    "a number": "7",
    "a list": "[]",
    "an object without anything": {},
    "no version": { id: 1, op: "status" },
    "a version that is text": { v: "1", id: 1, op: "status" },
    "an unknown operation": { v: 1, id: 1, op: "format-disk" },
    "an operation that is a property of every object": { v: 1, id: 1, op: "constructor" },
    "an id of 0": { v: 1, id: 0, op: "status" },
    "a negative id": { v: 1, id: -1, op: "status" },
    "an id beyond 2^53": '{"v":1,"id":9007199254740993,"op":"status"}',
    "a fractional id": { v: 1, id: 1.5, op: "status" },
    "a field too many": { v: 1, id: 1, op: "status", extra: 1 },
    "a field of another prototype": '{"v":1,"id":1,"op":"status","__proto__":{"force":true}}',
    "a missing field": { v: 1, id: 1, op: "stop" },
    "a field of another type": { v: 1, id: 1, op: "stop", force: "no" },
    "a name over 16 KiB": { v: 1, id: 1, op: "inspect", name: "x".repeat(16 * 1024 + 1) },
    "a program over its limit": {
      v: 1,
      id: 1,
      op: "hello",
      client: { version: "1", program: "x".repeat(129) },
    },
    "deep nesting": "[".repeat(30_000) + "]".repeat(30_000),
  };
  for (const [what, value] of Object.entries(broken)) {
    it(`refuses ${what} with a short INVALID_MESSAGE`, () => {
      assert.throws(
        () => decodeRequest(bytesOf(value)),
        (error) => hasCode(error, "INVALID_MESSAGE") && error.message.length < 600,
      );
    });
  }

  it("refuses bytes that are not UTF-8", () => {
    assert.throws(
      () => decodeRequest(Uint8Array.of(0x22, 0xff, 0x22)),
      (error) => hasCode(error, "INVALID_MESSAGE"),
    );
  });

  it("refuses another version with PROTOCOL_MISMATCH, whatever else the message holds", () => {
    for (const message of [{ v: 2 }, { v: 2, id: 1, op: "status" }, { v: 0.5, something: "new" }]) {
      assert.throws(
        () => decodeRequest(bytesOf(message)),
        (error) =>
          hasCode(error, "PROTOCOL_MISMATCH") &&
          error.message.includes(String(message.v)) &&
          /version 1/.test(error.message),
      );
    }
  });
});

describe("decodeReply", () => {
  it("reads a result and a refusal, even without the request's id", () => {
    assert.deepEqual(decodeReply(bytesOf({ v: 1, id: 3, ok: true, result: { a: 1 } })).id, 3);
    const refusal = {
      v: 1,
      id: 0,
      ok: false,
      error: { code: "INVALID_MESSAGE", message: "no" },
    } as const;
    assert.deepEqual(decodeReply(bytesOf(refusal)), refusal);
  });

  it("refuses a result for request 0, and anything but a result or a refusal", () => {
    for (const reply of [
      { v: 1, id: 0, ok: true, result: {} },
      { v: 1, id: 3 },
      { v: 1, id: 3, ok: false },
    ]) {
      assert.throws(
        () => decodeReply(bytesOf(reply)),
        (error) => hasCode(error, "INVALID_MESSAGE"),
      );
    }
    assert.throws(
      () => decodeReply(bytesOf({ v: 2, id: 3, ok: true, result: {} })),
      (error) => hasCode(error, "PROTOCOL_MISMATCH"),
    );
  });
});

describe("decodeResult", () => {
  it("accepts a result only for its own operation", () => {
    assert.deepEqual(decodeResult("create", { object: 1, lease: 2 }), { object: 1, lease: 2 });
    const more = { object: 1, lease: 2, more: 3 };
    assert.deepEqual(decodeResult("create", more), { object: 1, lease: 2 }, "it ignores the rest");
    for (const result of [{}, { object: 1 }, null, "text"]) {
      assert.throws(
        () => decodeResult("create", result),
        (error) => hasCode(error, "INVALID_MESSAGE"),
      );
    }
  });
});

describe("encodeMessage", () => {
  it("refuses a message over the limit, counted in bytes and not in characters", () => {
    const message = (name: string): Request => ({ v: 1, id: 1, op: "inspect", name });
    const overhead = encodeMessage(message("")).byteLength;
    const room = limits.messageBytesMax - overhead;
    assert.equal(encodeMessage(message("x".repeat(room))).byteLength, limits.messageBytesMax);
    for (const name of ["x".repeat(room + 1), "ü".repeat(room / 2 + 1)]) {
      assert.throws(
        () => encodeMessage(message(name)),
        (error) => hasCode(error, "MESSAGE_TOO_LARGE"),
      );
    }
  });
});

describe("idOf", () => {
  it("finds the id of a broken message, and 0 if there is none", () => {
    assert.equal(idOf(bytesOf({ id: 12, op: "nonsense" })), 12);
    for (const value of ["{", "null", "[]", { id: -1 }, { id: "1" }, { id: 1.5 }, {}])
      assert.equal(idOf(bytesOf(value)), 0);
  });
});
