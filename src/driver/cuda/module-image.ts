/**
 * Checks the image of a module: PTX text, a cubin or a fatbin. The driver gets an address without a
 * size, so an image that would lead it beyond its bytes is refused here.
 */
import { formatBytes } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { shownValue } from "../../base/shown-value.js";
import { cubinKernels, isElf } from "./cubin.js";
import { type KernelTable, ptxEntries } from "./ptx-entries.js";

export interface ModuleImage {
  /**
   * For the driver. SAFETY: text ends with a zero; the other forms contain their own, checked end.
   */
  readonly bytes: Uint8Array;
  /** Undefined if the image does not tell. */
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
  if (!(image instanceof Uint8Array))
    throw new TypeError(`A module's image must be a Uint8Array, not ${shownValue(image)}`);
  if (image.byteLength > limits.moduleBytesMax) {
    const max = formatBytes(limits.moduleBytesMax);
    const size = formatBytes(image.byteLength);
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot load a module of ${size}: the limit (moduleBytesMax) is ${max}`,
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
  // A PTX file may already end with zeros.
  const text =
    end >= 0 && image.subarray(end).every((byte) => byte === 0) ? image.subarray(0, end) : image;
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
