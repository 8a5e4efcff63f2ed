/**
 * The index of a bundle: layouts and metadata of its arrays, as JSON in a sealed memory file that
 * travels beside the memory.
 */
import { parseDType } from "../../array/dtype.js";
import { type ArrayLayout, checkLayout } from "../../array/layout.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { nextTurn } from "../../gpu/order/adaptive-wait.js";
import { readFilePart } from "../../os/file-calls.js";
import { createConstantFile, inspectMemoryFile } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { checked } from "../../wire/codec.js";
import {
  type BundleIndex,
  bundleEntrySchema,
  bundleIndexSchema,
  DESCRIPTOR_VERSION,
} from "../../wire/descriptor.js";
import { countJson } from "../../wire/json-counts.js";

/** Arrays that are checked in one turn of the event loop, in a few milliseconds. */
const ARRAYS_PER_TURN = 1000;

export interface BundleContent {
  readonly layouts: ReadonlyMap<string, ArrayLayout>;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Writes the index to a memory file, which the caller owns. */
export function writeBundleIndex(content: BundleContent): {
  readonly fd: OwnedFd;
  readonly byteLength: number;
} {
  const bytes = encodeBundleIndex(content);
  return { fd: createConstantFile("cuda-ipc-index", bytes), byteLength: bytes.byteLength };
}

/** The index as JSON in UTF-8. @throws TypeError for metadata, LIMIT_EXCEEDED */
export function encodeBundleIndex(content: BundleContent): Uint8Array {
  for (const [key, text] of Object.entries(content.metadata)) {
    if (typeof text !== "string") {
      throw new TypeError(
        `metadata must be texts by name, and that of ${JSON.stringify(key)} is ${typeof text}`,
      );
    }
  }
  const arrays = [...content.layouts].map(([name, layout]) => ({
    name,
    dtype: layout.dtype,
    shape: [...layout.shape],
    strides: [...layout.strides],
    byteOffset: layout.byteOffset,
  }));
  if (arrays.length > limits.bundleArraysMax) {
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot make a bundle of ${arrays.length} arrays: ` +
        `the limit (bundleArraysMax) is ${limits.bundleArraysMax}`,
    );
  }
  const index: BundleIndex = {
    version: DESCRIPTOR_VERSION,
    metadata: { ...content.metadata },
    arrays,
  };
  const bytes = new TextEncoder().encode(JSON.stringify(index));
  if (bytes.byteLength > limits.bundleIndexBytesMax) {
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot make a bundle whose index has ${bytes.byteLength} bytes: ` +
        `the limit (bundleIndexBytesMax) is ${limits.bundleIndexBytesMax}`,
    );
  }
  return bytes;
}

/**
 * Reads an index from another process and checks each layout against the memory.
 * @throws INVALID_DESCRIPTOR, UNSUPPORTED_DTYPE
 */
export function readBundleIndex(
  name: string,
  fd: OwnedFd,
  claimed: { readonly arrayCount: number; readonly indexByteLength: number },
  byteLength: number,
): Promise<BundleContent> {
  const bytes = readIndex(name, fd, claimed.indexByteLength);
  return decodeBundleIndex(name, bytes, claimed.arrayCount, byteLength);
}

/**
 * Decodes an index and checks each layout against memory of `byteLength` bytes. Other work goes on
 * meanwhile. Its longest step is to parse the JSON: about 0.1 s for 100,000 arrays.
 * @throws INVALID_DESCRIPTOR, UNSUPPORTED_DTYPE
 */
export async function decodeBundleIndex(
  name: string,
  bytes: Uint8Array,
  arrayCount: number,
  byteLength: number,
): Promise<BundleContent> {
  checkContainers(name, bytes, arrayCount);
  const parsed = parseIndex(name, bytes);
  const index = checked(`the index of "${name}"`, bundleIndexSchema, parsed, "INVALID_DESCRIPTOR");
  if (index.arrays.length !== arrayCount) {
    throw new CudaIpcError(
      "INVALID_DESCRIPTOR",
      `Cannot open "${name}": its index has ${index.arrays.length} arrays, ` +
        `${arrayCount} were claimed`,
    );
  }
  const layouts = new Map<string, ArrayLayout>();
  for (const [at, entry] of index.arrays.entries()) {
    if (at > 0 && at % ARRAYS_PER_TURN === 0) await nextTurn();
    const what = `array ${at} in the index of "${name}"`;
    const array = checked(what, bundleEntrySchema, entry, "INVALID_DESCRIPTOR");
    const { name: arrayName, dtype, shape, strides, byteOffset } = array;
    const layout = { dtype: parseDType(dtype), shape, strides, byteOffset };
    checkLayout(layout, byteLength);
    if (layouts.has(arrayName)) {
      throw new CudaIpcError(
        "INVALID_DESCRIPTOR",
        `Cannot open "${name}": two of its arrays are named "${arrayName}"`,
      );
    }
    layouts.set(arrayName, layout);
  }
  return { layouts, metadata: index.metadata };
}

function readIndex(name: string, fd: OwnedFd, byteLength: number): Uint8Array {
  const { byteLength: size, contentSealed, flaw } = inspectMemoryFile(fd);
  if (flaw !== undefined) throw refused(name, `its index cannot be used: ${flaw}`);
  // A writable index could change between the check of a layout and its use.
  if (!contentSealed) throw refused(name, "its index is not sealed against writing (F_SEAL_WRITE)");
  if (size !== byteLength)
    throw refused(name, `its index has ${size} bytes, ${byteLength} were claimed`);
  const bytes = Buffer.allocUnsafe(byteLength);
  for (let done = 0; done < byteLength; ) {
    const count = readFilePart(fd, bytes.subarray(done), done);
    if (count === 0) throw refused(name, `its index ends at byte ${done}`);
    done += count;
  }
  return bytes;
}

/** Checks the number of lists and objects before they are parsed. */
function checkContainers(name: string, bytes: Uint8Array, arrayCount: number): void {
  // The index, its metadata and its list; for each array an object, its shape and its strides.
  const most = 3 + 3 * arrayCount;
  const found = countJson(bytes).containers;
  if (found > most) {
    const claimed = `${arrayCount} arrays were claimed, which need at most ${most}`;
    throw refused(name, `its index has ${found} lists and objects, but ${claimed}`);
  }
}

function parseIndex(name: string, bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch (cause) {
    throw refused(name, "its index is not JSON", cause);
  }
}

function refused(name: string, found: string, cause?: unknown): CudaIpcError {
  return new CudaIpcError("INVALID_DESCRIPTOR", `Cannot open "${name}": ${found}`, { cause });
}
