/**
 * A JSON handle by which another process opens an array in legacy memory; send it any way you like.
 * It keeps nothing alive: keep the array open in its own process while others use it.
 */
import type { DType } from "../../array/dtype.js";
import { type ArrayLayout, checkLayout } from "../../array/layout.js";
import type { DeviceReference } from "../../base/device-reference.js";
import { aString, oneOf, optionsOf } from "../../base/option-checks.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { originOfHandle } from "../../driver/handle-origin.js";
import type { Access } from "../../os/mapping.js";
import { ownIdentity } from "../../os/process-identity.js";
import {
  type ArrayHandleDocument,
  decodeHandle,
  encodeHandle,
  IPC_DOCUMENT_VERSION,
  parseArrayHandle,
  type RawHandleDocument,
} from "../../wire/ipc-documents.js";
import { checkDevice } from "../check-arguments.js";
import type { Device } from "../device.js";
import { DeviceBuffer } from "../memory/device-buffer.js";
import { checkDeviceKind, exporterKey, refuseOwnProcess } from "../memory/exporters.js";
import { LegacyMemory } from "../memory/legacy-memory.js";
import { DeviceArray } from "./device-array.js";

export interface OpenHandleOptions {
  /** "read" by default. On a GPU nothing protects the memory: your kernels must not write to it. */
  readonly access?: Access | undefined;
  /** The name in error messages; "array" by default. */
  readonly label?: string | undefined;
}

/** The options of all calls that open a handle. */
export const handleChecks = { access: oneOf("read", "read-write"), label: aString } as const;

const checkOpen = optionsOf<OpenHandleOptions>("open()", handleChecks);

/** Of this package, or bare. */
type HandleDocument = ArrayHandleDocument | RawHandleDocument;

export class IpcArrayHandle<Document extends HandleDocument = ArrayHandleDocument> {
  readonly #document: Document;
  readonly #layout: ArrayLayout & { readonly dtype: DType };
  /** Arrays that this object has opened and nobody has closed. */
  readonly #opened = new Set<DeviceArray>();

  /** The document's form and layout are already checked. */
  private constructor(document: Document) {
    // The check of the layout includes the dtype.
    this.#layout = document.array as ArrayLayout & { readonly dtype: DType };
    this.#document = document;
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
      mark: mark.location,
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
   * Parses and checks the result of `toJSON`, or of `readHandleFile` for a raw file.
   * @throws INVALID_DESCRIPTOR, also if the array exceeds its block; INVALID_HANDLE;
   * UNSUPPORTED_DTYPE
   */
  static from(json: unknown): IpcArrayHandle<ArrayHandleDocument | RawHandleDocument> {
    const document = parseArrayHandle(json);
    // A bare handle does not say how large its block is: `open` learns it from the driver.
    const byteLength =
      document.kind === "raw-handle" ? Number.MAX_SAFE_INTEGER : document.blockByteLength;
    checkLayout(document.array as ArrayLayout, byteLength);
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

  toJSON(): Document {
    return this.#document;
  }

  /** The device that the memory is on, if the handle says so. @internal */
  get device(): DeviceReference | undefined {
    const document: HandleDocument = this.#document;
    return document.kind === "raw-handle" ? originOfHandle(this.bytes)?.device : document.device;
  }

  /**
   * Opens the exporter's array without a copy. Close it, or this object, before the exporter frees
   * the memory. Opening it twice gives two arrays on one mapping.
   * @throws OWN_HANDLE in the exporting process; STALE_HANDLE if the exporter ended or freed the
   * memory; IN_USE if freed memory with the same handle is still open here; INVALID_HANDLE,
   * INVALID_DESCRIPTOR, PERMISSION_DENIED
   */
  open(device: Device, options: OpenHandleOptions = {}): DeviceArray {
    checkDevice(device);
    checkOpen(options);
    const { access = "read", label = "array" } = options;
    const document: HandleDocument = this.#document;
    const memory =
      document.kind === "raw-handle"
        ? LegacyMemory.open(device, this.bytes, access)
        : openMarked(device, document, access, label);
    const { byteLength } = memory;
    return acquireIn((scope) => {
      const buffer = DeviceBuffer.over(memory, { label, byteLength, access });
      scope.own(buffer, (it) => it.close());
      const array: DeviceArray = new DeviceArray(buffer, this.#layout, () => {
        this.#opened.delete(array);
        buffer.close();
      });
      this.#opened.add(array);
      return array;
    });
  }

  /**
   * Closes the arrays that this object opened. You can open it again afterwards. In the process
   * that made the handle there is nothing to close, and the memory stays.
   */
  close(): void {
    releaseAll([...this.#opened].map((array) => () => array.close()));
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Opens memory whose exporter says by its mark whether it still has it. */
function openMarked(
  device: Device,
  { exporter, device: origin, generation, mark, handle, blockByteLength }: ArrayHandleDocument,
  access: Access,
  label: string,
): LegacyMemory {
  checkDeviceKind(device, origin, `array "${label}"`);
  refuseOwnProcess(exporter, `array "${label}"`);
  const key = `${exporterKey(exporter)} ${handle}`;
  const wanted = { exporter, generation, mark, handle, blockByteLength, key };
  return device.legacyImports.open(device, wanted, access, label);
}
