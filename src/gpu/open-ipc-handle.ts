/** A bare 64-byte handle of another program (PyTorch, Numba, CuPy, C) as an array: what it does not say, the caller knows. */
import type { DType } from "../array/dtype.js";
import { checkLayout, contiguousStrides } from "../array/layout.js";
import { checkInteger } from "../base/bytes.js";
import { checkOneOf } from "../base/one-of.js";
import { acquireIn } from "../base/scope.js";
import { checkHandle, decodeHandle } from "../wire/ipc-documents.js";
import type { Device } from "./device.js";
import { DeviceArray } from "./device-array.js";
import { DeviceBuffer } from "./device-buffer.js";
import type { OpenHandleOptions } from "./ipc-array-handle.js";
import { importLegacy } from "./legacy-memory.js";

export interface RawHandleOptions<D extends DType> extends OpenHandleOptions {
  readonly dtype: D;
  readonly shape: readonly number[];
  /** In elements, not bytes; C order without gaps by default. */
  readonly strides?: readonly number[] | undefined;
  /**
   * Bytes from the start of the block to the element whose indices are all 0; 0 by default. Programs that allocate many arrays in one
   * block (PyTorch, CuPy) send it beside the handle.
   */
  readonly byteOffset?: number | undefined;
}

/**
 * Opens a handle that says nothing of what lies behind it: 64 bytes as they are, as numbers, or in base64. Nothing tells whether its
 * exporter has freed the memory since: a GPU's driver opens what is in its place now. With handles of this package `IpcArrayHandle` tells.
 * The caller closes the array before its exporter frees it.
 * @throws INVALID_HANDLE, also for 63 or 65 bytes; OWN_HANDLE, STALE_HANDLE (host device), INVALID_DESCRIPTOR where the array leaves the block
 */
export function openIpcHandle<D extends DType>(
  device: Device,
  handle: Uint8Array | readonly number[] | string,
  options: RawHandleOptions<D>,
): DeviceArray<D> {
  const bytes = handleBytes(handle);
  const { dtype, shape, byteOffset = 0, access = "read", label = "array" } = options;
  checkOneOf("access", access, ["read", "read-write"]);
  const layout = { dtype, shape, strides: options.strides ?? contiguousStrides(shape), byteOffset };
  return acquireIn((scope) => {
    const mapped = importLegacy(device, bytes, access);
    const { byteLength } = mapped;
    scope.defer(() => mapped.release());
    checkLayout(layout, byteLength);
    const buffer = DeviceBuffer.over(mapped, { label, byteLength, access });
    return new DeviceArray(buffer, layout, () => buffer.close());
  });
}

function handleBytes(handle: Uint8Array | readonly number[] | string): Uint8Array {
  if (typeof handle === "string") return decodeHandle(handle);
  if (handle instanceof Uint8Array) return checkHandle(handle);
  if (!Array.isArray(handle)) {
    throw new TypeError(`A handle is a Uint8Array, an array of numbers or a base64 text, not ${typeof handle}`);
  }
  const numbers: readonly number[] = handle;
  return checkHandle(Uint8Array.from(numbers, (byte, index) => checkInteger(`handle[${index}]`, byte, 0, 255)));
}
