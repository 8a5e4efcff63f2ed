/**
 * The documents of objects with a 64-byte handle: an array in legacy memory, an event, and a bare
 * handle of another program. They are JSON without file descriptors. Their form is checked here,
 * and the memory by the code that opens them.
 */
import * as v from "valibot";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { checked } from "./codec.js";
import { arrayLayout } from "./descriptor.js";
import { count, deviceSchema, positive } from "./schemas.js";

export const IPC_DOCUMENT_VERSION = 1;
/** The bytes of the handle of memory or of an event. */
export const HANDLE_BYTES = 64;
/** A longer text is not a handle, and is not decoded. */
const HANDLE_TEXT_MAX = 1024;
const FD_MAX = 2 ** 31 - 1;

/** The exporting process: see os/process-identity.ts. */
export const exporterSchema = v.strictObject({
  pid: positive,
  pidNamespace: count,
  startTicks: count,
  bootId: v.pipe(
    v.string(),
    v.regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/),
  ),
});

/**
 * The exporter's mark, which says whether the exporter still has the object: see
 * gpu/memory/export-marks.ts.
 */
const mark = v.strictObject({
  /** A descriptor of the exporter, and the number of its file. */
  fd: v.pipe(count, v.maxValue(FD_MAX)),
  fileNumber: positive,
  slot: v.pipe(count, v.maxValue(limits.exportsPerDeviceMax - 1)),
});

const bare = {
  format: v.literal("cuda-ipc"),
  version: v.literal(IPC_DOCUMENT_VERSION),
  /** In base64. */
  handle: v.pipe(v.string(), v.maxLength(HANDLE_TEXT_MAX)),
};

const head = {
  ...bare,
  exporter: exporterSchema,
  device: deviceSchema,
  /**
   * Larger than the generation of any earlier object with the same handle, because handles repeat.
   */
  generation: positive,
  mark,
};

export const arrayHandleSchema = v.strictObject({
  ...head,
  kind: v.literal("array-handle"),
  /** Bytes of the block that the handle opens. */
  blockByteLength: positive,
  /** The offset counts from the start of the block. */
  array: arrayLayout,
});

/**
 * A bare handle, as programs without this package exchange it. It says neither what lies behind it
 * nor whose it is, so its reader gives the array.
 */
export const rawHandleSchema = v.strictObject({
  ...bare,
  kind: v.literal("raw-handle"),
  array: arrayLayout,
});

export const eventSchema = v.strictObject({
  ...head,
  kind: v.literal("event"),
  /** How often the event had been recorded when the document was made; 0 for never. */
  recorded: count,
});

export type MarkLocation = v.InferOutput<typeof mark>;
export type ArrayHandleDocument = v.InferOutput<typeof arrayHandleSchema>;
export type RawHandleDocument = v.InferOutput<typeof rawHandleSchema>;
export type EventDescriptor = v.InferOutput<typeof eventSchema>;

const anyArrayHandle = v.variant("kind", [arrayHandleSchema, rawHandleSchema]);

/** @throws INVALID_DESCRIPTOR, INVALID_HANDLE */
export function parseArrayHandle(value: unknown): ArrayHandleDocument | RawHandleDocument {
  return withHandle(checked("the handle of an array", anyArrayHandle, value, "INVALID_DESCRIPTOR"));
}

/** @throws INVALID_DESCRIPTOR, INVALID_HANDLE */
export function parseEventDescriptor(value: unknown): EventDescriptor {
  return withHandle(
    checked("the descriptor of an event", eventSchema, value, "INVALID_DESCRIPTOR"),
  );
}

export function encodeHandle(handle: Uint8Array): string {
  return Buffer.from(handle.buffer, handle.byteOffset, handle.byteLength).toString("base64");
}

/** The 64 bytes of a handle. @throws INVALID_HANDLE */
export function decodeHandle(text: string): Uint8Array {
  return checkHandle(decodeBase64(text));
}

/** @throws INVALID_HANDLE */
export function decodeBase64(text: string): Uint8Array {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    throw new CudaIpcError("INVALID_HANDLE", "Cannot read a handle: the text is not base64");
  }
  return new Uint8Array(Buffer.from(text, "base64"));
}

/** PyTorch 2.5 and newer put a version and one of these letters before what they send. */
const torchLetters = { cudaMalloc: 0x63, expandableSegment: 0x65 } as const;
const TORCH_PREFIX_BYTES = 2;
/** For an expandable segment PyTorch sends a header of 24 bytes, and 4 bytes for each part. */
const SEGMENT_HEADER_BYTES = 24;
const SEGMENT_PART_BYTES = 4;

/**
 * Returns the 64 bytes of a handle that PyTorch sends. Returns other bytes unchanged.
 * @throws UNSUPPORTED for memory of an expandable segment, which has no handle of 64 bytes
 */
export function withoutTorchPrefix(handle: Uint8Array): Uint8Array {
  if (handle[1] === torchLetters.expandableSegment && mayBeSegment(handle.byteLength)) {
    throw new CudaIpcError(
      "UNSUPPORTED",
      `Cannot open a handle of PyTorch (form ${handle[0]}): its memory is an expandable segment. ` +
        "Start that program without expandable_segments in PYTORCH_CUDA_ALLOC_CONF",
    );
  }
  const isPrefixed =
    handle.byteLength === TORCH_PREFIX_BYTES + HANDLE_BYTES &&
    handle[1] === torchLetters.cudaMalloc;
  return isPrefixed ? handle.slice(TORCH_PREFIX_BYTES) : handle;
}

function mayBeSegment(byteLength: number): boolean {
  const parts = (byteLength - TORCH_PREFIX_BYTES - SEGMENT_HEADER_BYTES) / SEGMENT_PART_BYTES;
  return byteLength !== HANDLE_BYTES && parts >= 1 && Number.isInteger(parts);
}

/** @throws INVALID_HANDLE */
export function checkHandle(handle: Uint8Array): Uint8Array {
  if (handle.byteLength === HANDLE_BYTES) return handle;
  const hint =
    handle.byteLength === HANDLE_BYTES + 2
      ? "; PyTorch puts 2 bytes of its own before the handle"
      : "";
  const found = `it has ${handle.byteLength} bytes, wanted ${HANDLE_BYTES}${hint}`;
  throw new CudaIpcError("INVALID_HANDLE", `Cannot read a handle: ${found}`);
}

function withHandle<Document extends { readonly handle: string }>(document: Document): Document {
  decodeHandle(document.handle);
  return document;
}
