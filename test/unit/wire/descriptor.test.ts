import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { checked } from "../../../src/wire/codec.js";
import {
  bundleIndexSchema,
  type Descriptor,
  descriptorContradiction,
  descriptorSchema,
  fdsOf,
} from "../../../src/wire/descriptor.js";
import { gpuArray, hostArray, hostBundle, timelineDescriptor } from "../../support/messages.js";

const array = { dtype: "float32", shape: [2, 3], strides: [3, 1], byteOffset: 0 };

function assertMalformed(value: unknown): void {
  assert.throws(
    () => checked("a descriptor", descriptorSchema, value, "INVALID_DESCRIPTOR"),
    (error) => hasCode(error, "INVALID_DESCRIPTOR"),
  );
}

describe("descriptorSchema", () => {
  for (const descriptor of [hostArray, gpuArray, hostBundle(1, 100), timelineDescriptor]) {
    it(`takes a ${descriptor.content.kind} on ${descriptor.device.kind}`, () => {
      assert.deepEqual(checked("a descriptor", descriptorSchema, descriptor), descriptor);
      assert.equal(descriptorContradiction(descriptor), undefined);
    });
  }

  const malformed: Record<string, unknown> = {
    "another version": { ...hostArray, version: 2 },
    "a device of no kind": { ...hostArray, device: {} },
    "a UUID that is a path": { ...gpuArray, device: { kind: "cuda", uuid: "GPU-../../../../etc/passwd" } },
    "a mechanism that is not known": { ...hostArray, mechanism: "fabric" },
    "memory of no bytes": { ...hostArray, allocationByteLength: 0 },
    "a negative size": { ...hostArray, byteLength: -1 },
    "a fractional size": { ...hostArray, byteLength: 0.5 },
    "a size beyond 2^53": { ...hostArray, allocationByteLength: 2 ** 53 },
    "too many dimensions": {
      ...hostArray,
      content: { kind: "array", array: { ...array, shape: new Array(limits.dimensionsMax + 1).fill(1) } },
    },
    "a negative shape": { ...hostArray, content: { kind: "array", array: { ...array, shape: [-1, 3] } } },
    "a stride that is no integer": { ...hostArray, content: { kind: "array", array: { ...array, strides: [0.5, 1] } } },
    "a negative offset": { ...hostArray, content: { kind: "array", array: { ...array, byteOffset: -4 } } },
    "an endless dtype": { ...hostArray, content: { kind: "array", array: { ...array, dtype: "x".repeat(33) } } },
    "an index over its limit": hostBundle(1, limits.bundleIndexBytesMax + 1),
    "an index of nothing": hostBundle(0, 0),
    "more arrays than the limit": hostBundle(limits.bundleArraysMax + 1, 1000),
    "a field too many": { ...hostArray, fd: 3 },
  };
  for (const [what, value] of Object.entries(malformed)) it(`refuses ${what}`, () => assertMalformed(value));
});

describe("descriptorContradiction", () => {
  const contradictions: Record<string, [Descriptor, RegExp]> = {
    "content larger than its memory": [{ ...hostArray, byteLength: 4097 }, /4097 bytes in memory of 4096/],
    "a timeline between two": [
      { ...timelineDescriptor, content: { kind: "timeline", byteOffset: 72 } },
      /a timeline at byte 72 of 4096 bytes of memfd memory/,
    ],
    "a timeline beyond the end": [
      { ...timelineDescriptor, content: { kind: "timeline", byteOffset: 4096 } },
      /a timeline at byte 4096/,
    ],
    "a timeline of a GPU": [{ ...gpuArray, content: timelineDescriptor.content }, /a timeline at byte 128/],
    "timelines in too much memory": [
      { ...timelineDescriptor, allocationByteLength: 2 ** 30 },
      /timelines in 1073741824 bytes/,
    ],
    "host memory on a GPU": [{ ...gpuArray, mechanism: "memfd" }, /mechanism memfd on device cuda/],
    "GPU memory on the host": [{ ...hostArray, mechanism: "vmm" }, /mechanism vmm on device host/],
    "other numbers of dimensions and strides": [
      { ...hostArray, content: { kind: "array", array: { ...array, strides: [1] } } },
      /2 dimensions with 1 strides/,
    ],
  };
  for (const [what, [descriptor, words]] of Object.entries(contradictions)) {
    it(`finds ${what}`, () => assert.match(descriptorContradiction(descriptor) ?? "", words));
  }

  it("finds none in content that fills its memory, nor in no content", () => {
    assert.equal(descriptorContradiction({ ...hostArray, byteLength: 4096 }), undefined);
    assert.equal(descriptorContradiction({ ...hostArray, byteLength: 0 }), undefined);
  });
});

describe("fdsOf", () => {
  it("is the memory, and the index of a bundle", () => {
    assert.deepEqual([fdsOf(hostArray), fdsOf(hostBundle(1, 2))], [1, 2]);
  });
});

describe("bundleIndexSchema", () => {
  const index = (metadata: unknown) => ({ version: 1, metadata, arrays: [{ name: "a", ...array }] });

  it("keeps all metadata, also under names that JavaScript knows", () => {
    const metadata = JSON.parse('{"constructor":"a","prototype":"b","__proto__":"c","":"d"}') as unknown;
    const read = checked("an index", bundleIndexSchema, index(metadata));
    assert.equal(JSON.stringify(read.metadata), '{"constructor":"a","prototype":"b","__proto__":"c","":"d"}');
  });

  it("refuses metadata that is not text by name", () => {
    for (const metadata of [[], null, "text", { a: 1 }, { a: { b: "c" } }]) {
      assert.throws(
        () => checked("an index", bundleIndexSchema, index(metadata), "INVALID_DESCRIPTOR"),
        (error) => hasCode(error, "INVALID_DESCRIPTOR"),
      );
    }
  });
});
