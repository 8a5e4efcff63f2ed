/**
 * The descriptor of a shared object: what a process in any language needs, beside the file
 * descriptors, to map and read it. It is versioned JSON. Its form is checked here, and its memory
 * by the code that maps it.
 */
import * as v from "valibot";
import { wholePages } from "../base/bytes.js";
import { limits } from "../base/limits.js";
import { poolFileBytes } from "../base/pool-layout.js";
import { isLineOffset, LINE_BYTES } from "../base/timeline-line.js";
import { whenWriterGonePolicies } from "../ring/channel-layout.js";
import {
  channelContent,
  channelContradiction,
  channelFds,
  wordsByteLength,
} from "./channel-content.js";
import { MARK_BYTES } from "./legacy-mark.js";
import { isValidName } from "./names.js";
import {
  count,
  deviceSchema,
  endsWithOwner,
  factsOf,
  hasOwnFile,
  mechanismSchema,
  positive,
} from "./schemas.js";

export const DESCRIPTOR_VERSION = 1;

const integer = v.pipe(v.number(), v.safeInteger());
/** 64 bytes in base64. */
const handle = v.pipe(v.string(), v.regex(/^[A-Za-z0-9+/]{86}==$/));

/**
 * One array in memory. Strides count elements, as in DLPack and numpy. The offset counts bytes from
 * the start of the memory.
 */
export const arrayLayout = v.strictObject({
  dtype: v.pipe(v.string(), v.maxLength(32)),
  shape: v.pipe(v.array(count), v.maxLength(limits.dimensionsMax)),
  strides: v.pipe(v.array(integer), v.maxLength(limits.dimensionsMax)),
  byteOffset: count,
});

/**
 * What the memory holds: one array, a bundle of arrays with its index in a second file, a timeline,
 * or the slots of a channel.
 */
const content = v.variant("kind", [
  v.strictObject({ kind: v.literal("array"), array: arrayLayout }),
  v.strictObject({
    kind: v.literal("bundle"),
    arrayCount: v.pipe(count, v.maxValue(limits.bundleArraysMax)),
    indexByteLength: v.pipe(count, v.minValue(2), v.maxValue(limits.bundleIndexBytesMax)),
  }),
  /** A timeline at this byte of memory that holds others, too; see timeline-line.ts. */
  v.strictObject({
    kind: v.literal("timeline"),
    byteOffset: count,
    /** With "wait" it waits for its next owner. Then its memory is of this timeline alone. */
    whenOwnerGone: v.optional(v.picklist(whenWriterGonePolicies)),
  }),
  channelContent,
]);

/**
 * The original of a copy that a bridge made: the machine that it is on, and its number on the hub
 * there.
 */
export const replicaOfSchema = v.strictObject({
  machine: v.pipe(v.string(), v.check(isValidName, "not a valid name")),
  object: positive,
});

export type ReplicaOf = v.InferOutput<typeof replicaOfSchema>;

export const descriptorSchema = v.strictObject({
  version: v.literal(DESCRIPTOR_VERSION),
  device: deviceSchema,
  /**
   * GPU memory travels as `vmm` (CUDA virtual memory management), host memory as `memfd`, memory of
   * pools of both as `pool`. Memory that only its owner keeps alive travels as `legacy`.
   */
  mechanism: mechanismSchema,
  /**
   * For memory of a pool: the pool, whose descriptor comes instead of the memory's, and the
   * driver's 64 bytes (base64) that name the allocation.
   */
  pooled: v.optional(
    v.strictObject({
      pool: v.pipe(v.string(), v.uuid()),
      maxBytes: positive,
      data: handle,
    }),
  ),
  /** For legacy memory: the driver's handle of the whole block. A mark comes as its descriptor. */
  legacy: v.optional(v.strictObject({ handle })),
  /** Bytes of the content. */
  byteLength: count,
  /** Bytes of the memory, which is mapped as a whole: a multiple of the device's granularity. */
  allocationByteLength: positive,
  content,
  /** Only for a copy of another machine's object. The hub keeps it and makes nothing of it. */
  replicaOf: v.optional(replicaOfSchema),
});

export type Descriptor = v.InferOutput<typeof descriptorSchema>;
export type DescriptorContent = Descriptor["content"];

/** WHY not v.record: it silently drops keys such as "constructor". */
const textByName = v.custom<Readonly<Record<string, string>>>(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((text) => typeof text === "string"),
  "an object of texts",
);

/** One array in the index of a bundle. */
export const bundleEntrySchema = v.strictObject({ name: v.string(), ...arrayLayout.entries });

/**
 * The index of a bundle. It can be larger than a message, so it has a sealed memory file of its
 * own. WHY `arrays` is not checked here: there may be a million, and each is checked in its turn.
 */
export const bundleIndexSchema = v.strictObject({
  version: v.literal(DESCRIPTOR_VERSION),
  metadata: textByName,
  arrays: v.custom<readonly unknown[]>(Array.isArray, "a list of arrays"),
});

export interface BundleIndex extends v.InferOutput<typeof bundleIndexSchema> {
  readonly arrays: readonly v.InferOutput<typeof bundleEntrySchema>[];
}

/** Says why a well-formed descriptor contradicts itself. Undefined if it does not. */
export function descriptorContradiction(descriptor: Descriptor): string | undefined {
  const { byteLength, allocationByteLength, mechanism, device, content } = descriptor;
  if (byteLength > allocationByteLength) {
    return `content of ${byteLength} bytes in memory of ${allocationByteLength}`;
  }
  if (!factsOf(device).mechanisms.includes(mechanism))
    return `mechanism ${mechanism} on device ${device.kind}`;
  if ((mechanism === "pool") !== (descriptor.pooled !== undefined)) {
    return (
      `mechanism ${mechanism} ${mechanism === "pool" ? "without" : "with"} the name of an ` +
      "allocation in a pool"
    );
  }
  if (endsWithOwner(descriptor) !== (descriptor.legacy !== undefined)) {
    return `mechanism ${mechanism} ${endsWithOwner(descriptor) ? "without" : "with"} a handle`;
  }
  if (endsWithOwner(descriptor) && content.kind !== "array")
    return `a ${content.kind} in legacy memory`;
  if (content.kind === "array" && content.array.shape.length !== content.array.strides.length) {
    return `${content.array.shape.length} dimensions with ${content.array.strides.length} strides`;
  }
  if (
    content.kind === "timeline" &&
    (!hasOwnFile(descriptor) || !isLineOffset(content.byteOffset, byteLength))
  ) {
    return `a timeline at byte ${content.byteOffset} of ${byteLength} bytes of ${mechanism} memory`;
  }
  if (content.kind === "timeline" && allocationByteLength > limits.timelineMemoryBytesMax) {
    return `timelines in ${allocationByteLength} bytes, over the limit (timelineMemoryBytesMax)`;
  }
  if (content.kind !== "channel") return undefined;
  if (mechanism === "pool") return "a channel in memory of a pool";
  return channelContradiction(content, byteLength);
}

/** How many file descriptors an object has. */
export function fdsOf({ content }: Descriptor): number {
  if (content.kind === "channel") return channelFds(content);
  return content.kind === "bundle" ? 2 : 1;
}

export interface ChargedBytes {
  readonly hostBytes: number;
  readonly deviceBytes: number;
}

/**
 * The bytes that an object has. An object that shares its memory has only its own part of it; see
 * `sharedFileBytes`. Memory files count as whole pages, and the index of a bundle counts, too.
 */
export function chargedBytes({
  device,
  mechanism,
  content,
  byteLength,
  allocationByteLength,
}: Descriptor): ChargedBytes {
  if (content.kind === "timeline") return { hostBytes: LINE_BYTES, deviceBytes: 0 };
  const bytes = mechanism === "pool" ? byteLength : allocationByteLength;
  // The words of a channel, an index and the mark of legacy memory are host memory, on a GPU, too.
  const words = content.kind === "channel" ? wordsByteLength(content) : 0;
  const index = content.kind === "bundle" ? wholePages(content.indexByteLength) : 0;
  const beside = words + index + (mechanism === "legacy" ? MARK_BYTES : 0);
  return factsOf(device).memoryFiles
    ? { hostBytes: (mechanism === "pool" ? bytes : wholePages(bytes)) + beside, deviceBytes: 0 }
    : { hostBytes: beside, deviceBytes: bytes };
}

/**
 * The memory file that an object shares with others: of timelines, or of a host pool. The hub keeps
 * all of it for a single object. Undefined if its memory is of this object alone.
 */
export function sharedFileBytes({
  device,
  content,
  pooled,
  allocationByteLength,
}: Descriptor): number | undefined {
  if (content.kind === "timeline") return wholePages(allocationByteLength);
  if (pooled === undefined || !factsOf(device).memoryFiles) return undefined;
  return poolFileBytes(pooled.maxBytes);
}
