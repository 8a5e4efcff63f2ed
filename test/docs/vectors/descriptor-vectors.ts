/** Descriptors of every kind, and some that contradict themselves. */
import type { Descriptor } from "../../../src/wire/descriptor.js";
import {
  channelOf,
  gpuArray,
  hostArray,
  hostBundle,
  legacyArray,
  pooledArray,
  replica,
  timelineDescriptor,
} from "../../support/messages.js";

const strided: Descriptor = {
  ...hostArray,
  byteLength: 64,
  content: {
    kind: "array",
    array: { dtype: "complex64", shape: [2, 3], strides: [-1, 2], byteOffset: 8 },
  },
};

const scalar: Descriptor = {
  ...hostArray,
  byteLength: 1,
  content: { kind: "array", array: { dtype: "bool", shape: [], strides: [], byteOffset: 0 } },
};

const taken: Readonly<Record<string, Descriptor>> = {
  "an array on the host": hostArray,
  "a single element": scalar,
  "an array whose strides are not packed": strided,
  "an array on a GPU": gpuArray,
  "an array in legacy memory": legacyArray,
  "an array in memory of a pool": pooledArray,
  "a copy of another machine's array": replica,
  "a bundle": hostBundle(3, 200),
  "a timeline": timelineDescriptor,
  "a channel": channelOf(),
  "a channel that drops new messages": channelOf({
    whenFull: "drop-newest",
    whenWriterGone: "wait",
  }),
};

const array = hostArray.content as Extract<Descriptor["content"], { kind: "array" }>;
const withArray = (changes: object) => ({
  ...hostArray,
  content: { ...array, array: { ...array.array, ...changes } },
});

/** Each differs from one that is taken by what its name says. */
const refused: Readonly<Record<string, object>> = {
  "version 2": { ...hostArray, version: 2 },
  "content that is larger than the memory": { ...hostArray, byteLength: 4097 },
  "memory of no bytes": { ...hostArray, byteLength: 0, allocationByteLength: 0 },
  "a negative size": { ...hostArray, byteLength: -1 },
  "a size that is no integer": { ...hostArray, byteLength: 24.5 },
  "memory of a GPU on the host": { ...hostArray, mechanism: "vmm" },
  "a memory file on a GPU": { ...gpuArray, mechanism: "memfd" },
  "a GPU without a UUID": { ...gpuArray, device: { kind: "cuda", uuid: "GPU-0" } },
  "legacy memory without a handle": { ...gpuArray, mechanism: "legacy" },
  "legacy memory with a handle of 63 bytes": {
    ...legacyArray,
    legacy: { handle: Buffer.alloc(63).toString("base64") },
  },
  "a handle of memory that is not legacy": { ...gpuArray, legacy: legacyArray.legacy },
  "an element past the end": withArray({ shape: [2, 4] }),
  "an element before the start": withArray({ strides: [-3, 1] }),
  "another number of strides": withArray({ strides: [3] }),
  "an offset that is not aligned": withArray({ byteOffset: 2 }),
  "more elements than the memory has bytes": withArray({ shape: [7], strides: [0] }),
  "a timeline between two lines": {
    ...timelineDescriptor,
    content: { kind: "timeline", byteOffset: 100 },
  },
  "a timeline past the end": {
    ...timelineDescriptor,
    content: { kind: "timeline", byteOffset: 4096 },
  },
  "slots that overlap": channelOf({ slotStride: 16 }),
  "slots of another size than their shape": channelOf({ slotBytes: 28 }),
  "fewer slots than the memory": { ...channelOf(), content: channelOf({ slots: 3 }).content },
  "a channel without places": channelOf({ readersMax: 0 }),
};

/** docs/protocol/vectors/descriptors.json */
export function descriptorVectors(): object {
  const texts = (of: Readonly<Record<string, object>>) =>
    Object.entries(of).map(([what, descriptor]) => ({ what, text: JSON.stringify(descriptor) }));
  return { taken: texts(taken), refused: texts(refused) };
}
