/**
 * Opens a bare 64-byte handle of another program (PyTorch, Numba, CuPy, C) as an array. The handle
 * carries no dtype and no shape, so the caller gives them.
 */
import type { DType } from "../../array/dtype.js";
import { checkLayout, contiguousStrides } from "../../array/layout.js";
import { checkInteger } from "../../base/bytes.js";
import { aNumber, checkShape, optionsOf } from "../../base/option-checks.js";
import { acquireIn } from "../../base/scope.js";
import { shownValue } from "../../base/shown-value.js";
import { checkHandle, decodeBase64, withoutTorchPrefix } from "../../wire/ipc-documents.js";
import { checkDevice } from "../check-arguments.js";
import type { Device } from "../device.js";
import { DeviceBuffer } from "../memory/device-buffer.js";
import { LegacyMemory } from "../memory/legacy-memory.js";
import { aDType } from "../option-checks.js";
import { DeviceArray } from "./device-array.js";
import { handleChecks, type OpenHandleOptions } from "./ipc-array-handle.js";

export interface RawHandleOptions<D extends DType> extends OpenHandleOptions {
  readonly dtype: D;
  readonly shape: readonly number[];
  /** In elements, not bytes. Contiguous in C order by default. */
  readonly strides?: readonly number[] | undefined;
  /**
   * Bytes from the start of the block to the first element; 0 by default. Programs that allocate
   * many arrays in one block (PyTorch, CuPy) send it with the handle.
   */
  readonly byteOffset?: number | undefined;
}

/** The options that say what lies behind a bare handle. */
export const rawArrayChecks = {
  dtype: aDType,
  shape: checkShape,
  strides: checkShape,
  byteOffset: aNumber,
} as const;

const checkOptions = optionsOf<RawHandleOptions<DType>>(
  "openIpcHandle()",
  { ...rawArrayChecks, ...handleChecks },
  { needs: ["dtype", "shape"], such: '{ dtype: "float32", shape: [2, 3] }' },
);

/**
 * Opens an array from a bare 64-byte handle: raw bytes, an array of numbers, or base64. The 66
 * bytes of PyTorch 2.5 and newer are accepted, too: a version and a letter stand before the handle.
 * Close the array before its exporter frees the memory.
 *
 * A bare handle does not show whether its exporter has freed the memory. A GPU's driver then opens
 * what took its place. `IpcArrayHandle` detects it, for handles of this package.
 * @throws INVALID_HANDLE, also if it is not 64 bytes long; UNSUPPORTED for an expandable segment of
 * PyTorch; OWN_HANDLE; STALE_HANDLE (host device);
 * INVALID_DESCRIPTOR if the array exceeds the block
 */
export function openIpcHandle<D extends DType>(
  device: Device,
  handle: Uint8Array | readonly number[] | string,
  options: RawHandleOptions<D>,
): DeviceArray<D> {
  checkDevice(device);
  const bytes = handleBytes(handle);
  checkOptions(options);
  const { dtype, shape, byteOffset = 0, access = "read", label = "array" } = options;
  const layout = { dtype, shape, strides: options.strides ?? contiguousStrides(shape), byteOffset };
  return acquireIn((scope) => {
    const memory = LegacyMemory.open(device, bytes, access);
    const { byteLength } = memory;
    const buffer = DeviceBuffer.over(memory, { label, byteLength, access });
    scope.own(buffer, (it) => it.close());
    checkLayout(layout, byteLength);
    return new DeviceArray(buffer, layout, () => buffer.close());
  });
}

function handleBytes(handle: Uint8Array | readonly number[] | string): Uint8Array {
  return checkHandle(withoutTorchPrefix(allBytes(handle)));
}

function allBytes(handle: Uint8Array | readonly number[] | string): Uint8Array {
  if (typeof handle === "string") return decodeBase64(handle);
  if (handle instanceof Uint8Array) return handle;
  if (!Array.isArray(handle)) {
    throw new TypeError(
      "handle must be a Uint8Array, an array of numbers or a base64 text, " +
        `not ${shownValue(handle)}`,
    );
  }
  const numbers: readonly number[] = handle;
  return Uint8Array.from(numbers, (byte, index) => checkInteger(`handle[${index}]`, byte, 0, 255));
}
