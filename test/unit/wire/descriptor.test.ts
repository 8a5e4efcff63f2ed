import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { channelFds, wordsByteLength } from "../../../src/wire/channel-content.js";
import { checked } from "../../../src/wire/codec.js";
import {
  bundleIndexSchema,
  chargedBytes,
  type Descriptor,
  descriptorContradiction,
  descriptorSchema,
  fdsOf,
} from "../../../src/wire/descriptor.js";
import {
  channelContent,
  channelOf,
  gpuArray,
  hostArray,
  hostBundle,
  legacyArray,
  timelineDescriptor,
} from "../../support/messages.js";

const array = { dtype: "float32", shape: [2, 3], strides: [3, 1], byteOffset: 0 };

function assertMalformed(value: unknown): void {
  assert.throws(
    () => checked("a descriptor", descriptorSchema, value, "INVALID_DESCRIPTOR"),
    (error) => hasCode(error, "INVALID_DESCRIPTOR"),
  );
}

describe("descriptorSchema", () => {
  for (const descriptor of [
    hostArray,
    gpuArray,
    legacyArray,
    hostBundle(1, 100),
    timelineDescriptor,
    channelOf(),
  ]) {
    const { content, device, mechanism } = descriptor;
    it(`accepts a ${content.kind} in ${mechanism} memory on ${device.kind}`, () => {
      assert.deepEqual(checked("a descriptor", descriptorSchema, descriptor), descriptor);
      assert.equal(descriptorContradiction(descriptor), undefined);
    });
  }

  const malformed: Record<string, unknown> = {
    "another version": { ...hostArray, version: 2 },
    "a device of no kind": { ...hostArray, device: {} },
    "a UUID that is a path": {
      ...gpuArray,
      device: { kind: "cuda", uuid: "GPU-../../../../etc/passwd" },
    },
    "an unknown mechanism": { ...hostArray, mechanism: "fabric" },
    "memory of no bytes": { ...hostArray, allocationByteLength: 0 },
    "a negative size": { ...hostArray, byteLength: -1 },
    "a fractional size": { ...hostArray, byteLength: 0.5 },
    "a size beyond 2^53": { ...hostArray, allocationByteLength: 2 ** 53 },
    "too many dimensions": {
      ...hostArray,
      content: {
        kind: "array",
        array: { ...array, shape: new Array(limits.dimensionsMax + 1).fill(1) },
      },
    },
    "a negative shape": {
      ...hostArray,
      content: { kind: "array", array: { ...array, shape: [-1, 3] } },
    },
    "a stride that is no integer": {
      ...hostArray,
      content: { kind: "array", array: { ...array, strides: [0.5, 1] } },
    },
    "a negative offset": {
      ...hostArray,
      content: { kind: "array", array: { ...array, byteOffset: -4 } },
    },
    "an endless dtype": {
      ...hostArray,
      content: { kind: "array", array: { ...array, dtype: "x".repeat(33) } },
    },
    "an index over its limit": hostBundle(1, limits.bundleIndexBytesMax + 1),
    "an empty index": hostBundle(0, 0),
    "more arrays than the limit": hostBundle(limits.bundleArraysMax + 1, 1000),
    "a channel of an unknown dtype": {
      ...channelOf(),
      content: { ...channelContent, dtype: "float128" },
    },
    "a channel without slots": { ...channelOf(), content: { ...channelContent, slots: 0 } },
    "too many slots": {
      ...channelOf(),
      content: { ...channelContent, slots: limits.channelSlotsMax + 1 },
    },
    "a channel without seats": { ...channelOf(), content: { ...channelContent, readersMax: 0 } },
    "too many seats": {
      ...channelOf(),
      content: { ...channelContent, readersMax: limits.channelReadersMax + 1 },
    },
    "slots of 0 bytes": {
      ...channelOf(),
      content: { ...channelContent, shape: [0], slotBytes: 0 },
    },
    "too many meta bytes": {
      ...channelOf(),
      content: { ...channelContent, metaBytesMax: limits.channelMetaBytesMax + 1 },
    },
    "messages of too many axes": {
      ...channelOf(),
      content: { ...channelContent, shape: [2, 3, 1, 1, 1, 1, 1, 1, 1] },
    },
    "an unknown policy": { ...channelOf(), content: { ...channelContent, whenFull: "drop" } },
    "a handle of 63 bytes": { ...legacyArray, legacy: { handle: "A".repeat(84) } },
    "a handle that is no text": { ...legacyArray, legacy: { handle: 64 } },
    "a field too many": { ...hostArray, fd: 3 },
  };
  for (const [what, value] of Object.entries(malformed))
    it(`refuses ${what}`, () => assertMalformed(value));
});

describe("descriptorContradiction", () => {
  const contradictions: Record<string, [Descriptor, RegExp]> = {
    "content larger than its memory": [
      { ...hostArray, byteLength: 4097 },
      /4097 bytes in memory of 4096/,
    ],
    "a timeline between two": [
      { ...timelineDescriptor, content: { kind: "timeline", byteOffset: 72 } },
      /a timeline at byte 72 of 4096 bytes of memfd memory/,
    ],
    "a timeline beyond the end": [
      { ...timelineDescriptor, content: { kind: "timeline", byteOffset: 4096 } },
      /a timeline at byte 4096/,
    ],
    "a timeline of a GPU": [
      { ...gpuArray, content: timelineDescriptor.content },
      /a timeline at byte 128/,
    ],
    "timelines in too much memory": [
      { ...timelineDescriptor, allocationByteLength: 2 ** 30 },
      /timelines in 1073741824 bytes/,
    ],
    "a shape that is larger than a slot": [
      channelOf({ shape: [2, 4] }),
      /slots of 24 bytes for float32\[2, 4\] of 32/,
    ],
    "slots that overlap": [channelOf({ slotStride: 20 }), /slots of 24 bytes at every 20th byte/],
    "slots between two elements": [
      channelOf({ slotStride: 26 }),
      /at every 26th byte, between two of float32/,
    ],
    "slots that do not fill the memory": [
      { ...channelOf(), byteLength: 200 },
      /4 slots at every 64th byte in 200 bytes/,
    ],
    "a slot too few to drop the newest": [
      { ...channelOf(), content: { ...channelOf().content, whenFull: "drop-newest" } },
      /5 slots at every 64th byte in 256 bytes/,
    ],
    "a control file that is too long": [
      channelOf({ slots: limits.channelSlotsMax, metaBytesMax: limits.channelMetaBytesMax }),
      /a control file of \d+ bytes, over the limit \(channelControlBytesMax\)/,
    ],
    "a channel in a pool": [
      {
        ...channelOf(),
        mechanism: "pool",
        pooled: {
          pool: "01234567-89ab-4def-8123-456789abcdef",
          maxBytes: 65_536,
          data: `${"A".repeat(86)}==`,
        },
      },
      /a channel in memory of a pool/,
    ],
    "legacy memory without its handle": [
      { ...gpuArray, mechanism: "legacy" },
      /mechanism legacy without a handle/,
    ],
    "a handle of other memory": [
      { ...gpuArray, legacy: { handle: `${"A".repeat(86)}==` } },
      /mechanism vmm with a handle/,
    ],
    "a bundle in legacy memory": [
      { ...legacyArray, content: hostBundle(1, 100).content },
      /a bundle in legacy memory/,
    ],
    "a channel in legacy memory": [
      { ...channelOf(), mechanism: "legacy", legacy: { handle: `${"A".repeat(86)}==` } },
      /a channel in legacy memory/,
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

  it("accepts content that fills its memory, and no content", () => {
    assert.equal(descriptorContradiction({ ...hostArray, byteLength: 4096 }), undefined);
    assert.equal(descriptorContradiction({ ...hostArray, byteLength: 0 }), undefined);
  });
});

describe("fdsOf", () => {
  it("counts the memory, and the index of a bundle", () => {
    assert.deepEqual([fdsOf(hostArray), fdsOf(hostBundle(1, 2))], [1, 2]);
  });

  it("counts all of a channel, which fits into one message", () => {
    const most = channelOf({ readersMax: limits.channelReadersMax });
    assert.deepEqual([fdsOf(channelOf()), fdsOf(most)], [7, 131]);
    assert.ok(fdsOf(most) <= limits.scmRightsFdsMax);
    const { content } = channelOf();
    assert.deepEqual([channelFds(content, "reader"), channelFds(content, "observer")], [5, 3]);
  });
});

describe("chargedBytes", () => {
  it("counts memory files as whole pages, and the index of a bundle", () => {
    const small = { ...hostArray, byteLength: 4, allocationByteLength: 100 };
    assert.deepEqual(chargedBytes(small), { hostBytes: 4096, deviceBytes: 0 });
    assert.deepEqual(chargedBytes(hostBundle(3, 5000)), { hostBytes: 12_288, deviceBytes: 0 });
    const { device, mechanism } = gpuArray;
    const onGpu = { ...hostBundle(3, 200), device, mechanism };
    assert.deepEqual(chargedBytes(onGpu), { hostBytes: 4096, deviceBytes: 4096 });
  });

  it("counts the mapped bytes on their device, and the words of a channel on the host", () => {
    assert.deepEqual(chargedBytes(hostArray), { hostBytes: 4096, deviceBytes: 0 });
    assert.deepEqual(chargedBytes(gpuArray), { hostBytes: 0, deviceBytes: 4096 });
    assert.deepEqual(chargedBytes(timelineDescriptor), { hostBytes: 64, deviceBytes: 0 });
    const words = wordsByteLength(channelOf().content);
    assert.deepEqual(chargedBytes(channelOf()), { hostBytes: 4096 + words, deviceBytes: 0 });
    const { device, mechanism } = gpuArray;
    assert.deepEqual(chargedBytes({ ...channelOf(), device, mechanism }), {
      hostBytes: words,
      deviceBytes: 256,
    });
  });
});

describe("bundleIndexSchema", () => {
  const index = (metadata: unknown) => ({
    version: 1,
    metadata,
    arrays: [{ name: "a", ...array }],
  });

  it('keeps all metadata, even under names such as "constructor"', () => {
    const metadata = JSON.parse(
      '{"constructor":"a","prototype":"b","__proto__":"c","":"d"}',
    ) as unknown;
    const read = checked("an index", bundleIndexSchema, index(metadata));
    assert.equal(
      JSON.stringify(read.metadata),
      '{"constructor":"a","prototype":"b","__proto__":"c","":"d"}',
    );
  });

  it("refuses metadata that is not an object of strings", () => {
    for (const metadata of [[], null, "text", { a: 1 }, { a: { b: "c" } }]) {
      assert.throws(
        () => checked("an index", bundleIndexSchema, index(metadata), "INVALID_DESCRIPTOR"),
        (error) => hasCode(error, "INVALID_DESCRIPTOR"),
      );
    }
  });
});
