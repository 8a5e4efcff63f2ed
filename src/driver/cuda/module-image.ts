/**
 * What may be given to the driver as a module: PTX text, a cubin, a fatbin. The driver takes an address without a size, so what would
 * lead it out of the bytes is refused here, in words.
 */
import { formatBytes } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { cubinKernels, isElf } from "./cubin.js";
import { type KernelTable, ptxEntries } from "./ptx-entries.js";

export interface ModuleImage {
  /** What the driver gets. SAFETY: text ends with a zero; anything else says itself where it ends, within these bytes. */
  readonly bytes: Uint8Array;
  /** Undefined where the image does not tell. */
  readonly kernels: KernelTable | undefined;
}

/*
 * The header of a fatbin:
 *   0              4             6              8
 *   | magic u32    | version u16 | header bytes u16 | bytes after the header u64
 */
const FATBIN_MAGIC = 0xba55ed50;
const FATBIN_HEADER_BYTES = 16;

/** @throws INVALID_MODULE, LIMIT_EXCEEDED */
export function readModuleImage(image: Uint8Array): ModuleImage {
  if (!(image instanceof Uint8Array)) throw new TypeError(`A module's image must be a Uint8Array, not ${typeof image}`);
  if (image.byteLength > limits.moduleBytesMax) {
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot load a module of ${formatBytes(image.byteLength)}: the limit (moduleBytesMax) is ${formatBytes(limits.moduleBytesMax)}`,
    );
  }
  if (isElf(image)) return readCubin(image);
  if (isFatbin(image)) return readFatbin(image);
  return readPtx(image);
}

function readCubin(image: Uint8Array): ModuleImage {
  const kernels = cubinKernels(image);
  if (typeof kernels === "string") throw invalid(`its cubin is damaged, ${kernels}`);
  return { bytes: image, kernels: new Map(kernels.map((name) => [name, undefined])) };
}

function isFatbin(image: Uint8Array): boolean {
  return image.byteLength >= 4 && viewOf(image).getUint32(0, true) === FATBIN_MAGIC;
}

function readFatbin(image: Uint8Array): ModuleImage {
  const view = viewOf(image);
  const wanted =
    image.byteLength < FATBIN_HEADER_BYTES
      ? FATBIN_HEADER_BYTES
      : view.getUint16(6, true) + Number(view.getBigUint64(8, true));
  if (wanted > image.byteLength)
    throw invalid(`its fatbin is cut off, found ${image.byteLength} bytes, wanted ${wanted}`);
  return { bytes: image, kernels: undefined };
}

function readPtx(image: Uint8Array): ModuleImage {
  const end = image.indexOf(0);
  // Files of PTX may end with the zero already.
  const text = end >= 0 && image.subarray(end).every((byte) => byte === 0) ? image.subarray(0, end) : image;
  if (text.includes(0)) throw invalid("found binary data, wanted PTX text, a cubin or a fatbin");
  let decoded: string;
  try {
    decoded = new TextDecoder("utf-8", { fatal: true }).decode(text);
  } catch {
    throw invalid("found neither UTF-8 text (PTX) nor a cubin nor a fatbin");
  }
  if (decoded.trim() === "") throw invalid("found nothing, wanted PTX text, a cubin or a fatbin");
  const bytes = new Uint8Array(text.byteLength + 1);
  bytes.set(text);
  return { bytes, kernels: ptxEntries(decoded) };
}

function viewOf(image: Uint8Array): DataView {
  return new DataView(image.buffer, image.byteOffset, image.byteLength);
}

function invalid(found: string): CudaIpcError {
  return new CudaIpcError("INVALID_MODULE", `Cannot load a module: ${found}`);
}
