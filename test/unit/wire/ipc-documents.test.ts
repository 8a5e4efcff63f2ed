import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import {
  type ArrayHandleDocument,
  checkHandle,
  decodeHandle,
  type EventDescriptor,
  encodeHandle,
  parseArrayHandle,
  parseEventDescriptor,
  withoutTorchPrefix,
} from "../../../src/wire/ipc-documents.js";

const handle = encodeHandle(Uint8Array.from({ length: 64 }, (_, i) => i));
const head = {
  format: "cuda-ipc",
  version: 1,
  exporter: {
    pid: 12,
    pidNamespace: 4_026_531_836,
    startTicks: 0,
    bootId: "01234567-89ab-cdef-0123-456789abcdef",
  },
  device: { kind: "host" },
  handle,
  generation: 5,
  mark: { fd: 20, fileNumber: 77, slot: 0 },
} as const;
const array: ArrayHandleDocument = {
  ...head,
  kind: "array-handle",
  blockByteLength: 2 ** 21,
  array: { dtype: "float32", shape: [2, 3], strides: [3, 1], byteOffset: 8 },
};
const event: EventDescriptor = { ...head, kind: "event", recorded: 0 };

function refused(code: ErrorCode, attempt: () => unknown, what: string): void {
  assert.throws(attempt, (error) => hasCode(error, code), what);
}

describe("the documents of handles", () => {
  it("are accepted unchanged", () => {
    assert.deepEqual(parseArrayHandle(JSON.parse(JSON.stringify(array))), array);
    assert.deepEqual(parseEventDescriptor(JSON.parse(JSON.stringify(event))), event);
  });

  const malformed: Record<string, object> = {
    "another format": { format: "cuda" },
    "another version": { version: 2 },
    "an array without its block": { blockByteLength: 0 },
    "a negative count": { recorded: -1 },
    "a fraction": { generation: 0.5 },
    "no generation": { generation: 0 },
    "a process without a number": { exporter: { ...head.exporter, pid: 0 } },
    "a process that is a path": {
      exporter: { ...head.exporter, bootId: "../../../../../../../etc/passwd-000000" },
    },
    "a process and more": { exporter: { ...head.exporter, uid: 0 } },
    "no mark": { mark: undefined },
    "a mark of no descriptor": { mark: { ...head.mark, fd: -1 } },
    "a mark of no file": { mark: { ...head.mark, fileNumber: 0 } },
    "a mark outside its file": { mark: { ...head.mark, slot: limits.exportsPerDeviceMax } },
    "a mark and more": { mark: { ...head.mark, path: "/etc/passwd" } },
    "a handle of endless length": { handle: "A".repeat(2000) },
    "a handle of bytes": { handle: [1, 2, 3] },
    "a surplus field": { surplus: true },
  };
  for (const [what, change] of Object.entries(malformed)) {
    it(`are refused with ${what}`, () => {
      refused("INVALID_DESCRIPTOR", () => parseArrayHandle({ ...array, ...change }), what);
      refused("INVALID_DESCRIPTOR", () => parseEventDescriptor({ ...event, ...change }), what);
    });
  }

  it("are not accepted for each other", () => {
    refused("INVALID_DESCRIPTOR", () => parseArrayHandle(event), "an event");
    refused("INVALID_DESCRIPTOR", () => parseEventDescriptor(array), "an array");
    for (const nothing of [undefined, null, 1, "text", []]) {
      refused("INVALID_DESCRIPTOR", () => parseArrayHandle(nothing), String(nothing));
    }
  });
});

describe("handles as text", () => {
  it("are decoded as they were encoded", () => {
    assert.equal(encodeHandle(decodeHandle(handle)), handle);
  });

  it("are refused if they are not 64 bytes in base64", () => {
    const wrong = [0, 1, 63, 65, 128].map((byteLength) => encodeHandle(new Uint8Array(byteLength)));
    for (const text of [...wrong, handle.replace("A", "?"), `${handle} `, "=", handle.slice(1)]) {
      refused("INVALID_HANDLE", () => decodeHandle(text), text);
      refused("INVALID_HANDLE", () => parseEventDescriptor({ ...event, handle: text }), text);
      refused("INVALID_HANDLE", () => parseArrayHandle({ ...array, handle: text }), text);
    }
    assert.throws(
      () => checkHandle(new Uint8Array(66)),
      /PyTorch puts 2 bytes of its own before the handle/,
    );
  });

  it("lose the two bytes of PyTorch, unless its memory has no such handle", () => {
    const bytes = decodeHandle(handle);
    for (const version of [1, 2, 200]) {
      const sent = Uint8Array.of(version, "c".charCodeAt(0), ...bytes);
      assert.deepEqual(withoutTorchPrefix(sent), bytes);
      for (const parts of [1, 2, 100]) {
        const segment = new Uint8Array(2 + 24 + 4 * parts);
        segment.set([version, "e".charCodeAt(0)]);
        refused("UNSUPPORTED", () => withoutTorchPrefix(segment), `${version}, ${parts}`);
      }
    }
    for (const byteLength of [26, 63, 65]) {
      const other = new Uint8Array(byteLength).fill("e".charCodeAt(0));
      assert.equal(withoutTorchPrefix(other), other);
    }
    const others = [bytes, new Uint8Array(66), bytes.subarray(1), new Uint8Array(0)];
    for (const other of others) assert.equal(withoutTorchPrefix(other), other);
    const letterInside = bytes.map((byte, i) => (i === 1 ? "e".charCodeAt(0) : byte));
    assert.equal(withoutTorchPrefix(letterInside), letterInside);
  });
});
