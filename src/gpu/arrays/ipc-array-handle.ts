/**
 * A JSON handle by which another process opens an array in legacy memory; send it any way you like.
 * It keeps nothing alive: keep the array open in its own process while others use it.
 */
import type { DType } from "../../array/dtype.js";
import { type ArrayLayout, checkLayout } from "../../array/layout.js";
import { checkOneOf } from "../../base/option-checks.js";
import type { Access } from "../../os/mapping.js";
import { ownIdentity } from "../../os/process-identity.js";
import {
  type ArrayHandleDocument,
  decodeHandle,
  encodeHandle,
  IPC_DOCUMENT_VERSION,
  parseArrayHandle,
} from "../../wire/ipc-documents.js";
import type { Device } from "../device.js";
import { DeviceBuffer } from "../memory/device-buffer.js";
import { checkDeviceKind, exporterKey, refuseOwnProcess } from "../memory/exporters.js";
import { LegacyMemory, type WantedBlock } from "../memory/legacy-memory.js";
import { DeviceArray } from "./device-array.js";

export interface OpenHandleOptions {
  /** "read" by default. On a GPU nothing protects the memory: your kernels must not write to it. */
  readonly access?: Access | undefined;
  /** The name in error messages; "array" by default. */
  readonly label?: string | undefined;
}

export class IpcArrayHandle {
  readonly #document: ArrayHandleDocument;
  readonly #layout: ArrayLayout & { readonly dtype: DType };
  readonly #wanted: WantedBlock;

  /** The document's form and layout are already checked. */
  private constructor(document: ArrayHandleDocument) {
    const { exporter, generation, mark, handle, blockByteLength, array } = document;
    // The check of the layout includes the dtype.
    this.#layout = array as ArrayLayout & { readonly dtype: DType };
    this.#document = document;
    this.#wanted = {
      exporter,
      generation,
      mark,
      handle,
      blockByteLength,
      key: `${exporterKey(exporter)} ${handle}`,
    };
  }

  /**
   * Returns the handle of an array that this process allocated with `mechanism: "legacy"`, or of a
   * slice of one.
   * @throws UNSUPPORTED for an array in memory of another mechanism
   */
  static of(array: DeviceArray): IpcArrayHandle {
    const { memory, label } = array.buffer;
    const { handle, blockByteLength, byteOffset, mark } = LegacyMemory.handleOf(memory, label);
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
      array: {
        dtype,
        shape: [...shape],
        strides: [...strides],
        byteOffset: byteOffset + arrayByteOffset,
      },
    });
  }

  /**
   * Parses and checks the result of `toJSON`, from any source.
   * @throws INVALID_DESCRIPTOR, also if the array exceeds its block; INVALID_HANDLE;
   * UNSUPPORTED_DTYPE
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

  /** The bare 64 bytes, as CUDA programs in other languages exchange them. */
  get bytes(): Uint8Array {
    return decodeHandle(this.#document.handle);
  }

  toJSON(): ArrayHandleDocument {
    return this.#document;
  }

  /**
   * Opens the exporter's array without a copy. Close it before the exporter frees the memory.
   * Opening it twice gives two arrays on one mapping.
   * @throws OWN_HANDLE in the exporting process; STALE_HANDLE if the exporter ended or freed the
   * memory; IN_USE if freed memory with the same handle is still open here; INVALID_HANDLE,
   * INVALID_DESCRIPTOR, PERMISSION_DENIED
   */
  open(device: Device, options: OpenHandleOptions = {}): DeviceArray {
    const { access = "read", label = "array" } = options;
    checkOneOf("access", access, ["read", "read-write"]);
    checkDeviceKind(device, this.#document.device, `array "${label}"`);
    refuseOwnProcess(this.#document.exporter, `array "${label}"`);
    const memory = device.legacyImports.open(device, this.#wanted, access, label);
    const { byteLength } = memory;
    const buffer = DeviceBuffer.over(memory, { label, byteLength, access });
    return new DeviceArray(buffer, this.#layout, () => buffer.close());
  }
}
