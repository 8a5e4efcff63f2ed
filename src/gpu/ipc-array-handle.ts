/**
 * What an array in memory of the legacy mechanism is opened by in another process: JSON, sent by whatever way. It keeps nothing alive:
 * the array has to stay open in its own process for as long as others use it.
 */
import type { DType } from "../array/dtype.js";
import { type ArrayLayout, checkLayout } from "../array/layout.js";
import { checkOneOf } from "../base/one-of.js";
import type { Access } from "../os/mapping.js";
import { ownIdentity } from "../os/process-identity.js";
import {
  type ArrayHandleDocument,
  encodeHandle,
  IPC_DOCUMENT_VERSION,
  parseArrayHandle,
} from "../wire/ipc-documents.js";
import type { Device } from "./device.js";
import { DeviceArray } from "./device-array.js";
import { exporterKey } from "./exporters.js";
import { checkDeviceKind, refuseOwnProcess } from "./ipc-origin.js";
import type { WantedBlock } from "./legacy-imports.js";

export interface OpenHandleOptions {
  /** "read" by default. On a GPU the memory itself is not protected: kernels of this process have to keep to it. */
  readonly access?: Access | undefined;
  /** The name in error messages; "array" by default. */
  readonly label?: string | undefined;
}

export class IpcArrayHandle {
  readonly #document: ArrayHandleDocument;
  readonly #layout: ArrayLayout & { readonly dtype: DType };
  readonly #wanted: WantedBlock;

  /** Takes a document of checked form and layout. */
  private constructor(document: ArrayHandleDocument) {
    const { exporter, generation, mark, handle, blockByteLength, array } = document;
    // The dtype was found to be one by whoever checked the layout.
    this.#layout = array as ArrayLayout & { readonly dtype: DType };
    this.#document = document;
    this.#wanted = { exporter, generation, mark, handle, blockByteLength, key: `${exporterKey(exporter)} ${handle}` };
  }

  /**
   * The handle of an array that was allocated here with `mechanism: "legacy"`, or of a slice of one.
   * @throws UNSUPPORTED for an array in memory that has no such handle
   */
  static of(array: DeviceArray): IpcArrayHandle {
    const { handle, blockByteLength, byteOffset, mark } = array.buffer.exportHandle();
    const { dtype, shape, strides, byteOffset: arrayByteOffset } = array.layout;
    return new IpcArrayHandle({
      format: "cuda-ipc",
      version: IPC_DOCUMENT_VERSION,
      kind: "array-handle",
      exporter: { ...ownIdentity() },
      device: array.device.reference,
      handle: encodeHandle(handle),
      generation: mark.generation,
      mark: mark.place,
      blockByteLength,
      array: { dtype, shape: [...shape], strides: [...strides], byteOffset: byteOffset + arrayByteOffset },
    });
  }

  /**
   * From what `toJSON` gave, which may have come from anywhere.
   * @throws INVALID_DESCRIPTOR also where the array leaves its block, INVALID_HANDLE, UNSUPPORTED_DTYPE
   */
  static from(json: unknown): IpcArrayHandle {
    const document = parseArrayHandle(json);
    checkLayout(document.array as ArrayLayout, document.blockByteLength);
    return new IpcArrayHandle(document);
  }

  get dtype(): DType {
    return this.#layout.dtype;
  }

  get shape(): readonly number[] {
    return this.#layout.shape;
  }

  /** In elements. */
  get strides(): readonly number[] {
    return this.#layout.strides;
  }

  toJSON(): ArrayHandleDocument {
    return this.#document;
  }

  /**
   * The array in the memory of its process, without a copy. The caller closes it, before the exporter frees it. Opened again it is
   * another array on the same mapping.
   * @throws OWN_HANDLE in the process that exported it, STALE_HANDLE where that ended or freed the memory, IN_USE where memory
   * that it freed before is still open here under the same handle, INVALID_HANDLE, INVALID_DESCRIPTOR, PERMISSION_DENIED
   */
  open(device: Device, options: OpenHandleOptions = {}): DeviceArray {
    const { access = "read", label = "array" } = options;
    checkOneOf("access", access, ["read", "read-write"]);
    checkDeviceKind(device, this.#document.device, `array "${label}"`);
    refuseOwnProcess(this.#document.exporter, `array "${label}"`);
    const buffer = device.legacyImports.open(device, this.#wanted, access, label);
    return new DeviceArray(buffer, this.#layout, () => buffer.close());
  }
}
