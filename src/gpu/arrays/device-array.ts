/**
 * An array in a device's memory: element type, shape and strides over a buffer. Slices and reshapes
 * share the memory, and are usable while the array that owns it is open.
 */
import type { Scalar } from "../../array/arithmetic.js";
import { type DType, isDType } from "../../array/dtype.js";
import {
  fromHostBytes,
  type HostArray,
  type HostValues,
  hostArrayType,
  hostEntriesPerElement,
  toHostBytes,
} from "../../array/host-values.js";
import {
  type ArrayLayout,
  arrayByteLength,
  checkLayout,
  contiguousLayout,
  type LayoutFacts,
  layoutFacts,
} from "../../array/layout.js";
import {
  reshapeLayout,
  type SliceRange,
  sliceLayout,
  transposeLayout,
} from "../../array/layout-views.js";
import type { Statistics } from "../../array/statistics.js";
import type { WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import type { Comparison } from "../../driver/operation-calls.js";
import { checkDevice } from "../check-arguments.js";
import type { Device } from "../device.js";
import type { AllocateOptions } from "../memory/buffer-options.js";
import { DeviceBuffer } from "../memory/device-buffer.js";
import { checkNewArray } from "../option-checks.js";
import type { Stream } from "../order/stream.js";
import { checkCopy, copyArray, enqueueCopy } from "./array-copy.js";
import {
  type AffineOptions,
  affineArray,
  arrayStatistics,
  checksumArray,
  countUp,
  fillArray,
  type OperationOptions,
} from "./array-operations.js";
import { type CompareOptions, compareArrays } from "./compare-arrays.js";
import { readStrided, writeStrided } from "./strided-transfer.js";

export interface ArrayOptions<D extends DType> {
  readonly dtype: D;
  /** Number of elements along each axis, outermost first; `[]` is one element. */
  readonly shape: readonly number[];
  /** How the memory is shared; see `AllocateOptions`. */
  readonly mechanism?: AllocateOptions["mechanism"];
}

export class DeviceArray<D extends DType = DType> {
  readonly buffer: DeviceBuffer;
  readonly layout: ArrayLayout;
  readonly #release: () => void;
  #facts: LayoutFacts | undefined;

  /**
   * Makes an array over part of a buffer.
   * @param release called by `close()`; by default nothing, and the caller still owns the buffer
   * @param facts internal: facts of a layout that was already checked against this memory
   * @throws INVALID_DESCRIPTOR if the layout exceeds the buffer
   */
  constructor(
    buffer: DeviceBuffer,
    layout: ArrayLayout & { readonly dtype: D },
    release?: () => void,
  );
  /** @param facts of a layout that was checked against this memory before @internal */
  constructor(
    buffer: DeviceBuffer,
    layout: ArrayLayout & { readonly dtype: D },
    release?: () => void,
    facts?: LayoutFacts,
  );
  constructor(
    buffer: DeviceBuffer,
    layout: ArrayLayout & { readonly dtype: D },
    release: () => void = () => {},
    facts?: LayoutFacts,
  ) {
    if (facts === undefined) checkLayout(layout, buffer.byteLength);
    this.buffer = buffer;
    this.layout = layout;
    this.#release = release;
    this.#facts = facts;
  }

  /** Allocates a contiguous array in its own memory, which `close()` frees. */
  static allocate<D extends DType>(
    device: Device,
    options: ArrayOptions<D>,
    label?: string,
  ): DeviceArray<D> {
    checkDevice(device);
    checkNewArray(options);
    const byteLength = arrayByteLength(options.dtype, options.shape);
    const buffer = DeviceBuffer.allocate(device, byteLength, {
      label,
      mechanism: options.mechanism,
    });
    const layout = { ...contiguousLayout(options.dtype, options.shape), dtype: options.dtype };
    return new DeviceArray(buffer, layout, () => buffer.close());
  }

  get dtype(): D {
    return this.layout.dtype as D;
  }

  get shape(): readonly number[] {
    return this.layout.shape;
  }

  /** In elements. */
  get strides(): readonly number[] {
    return this.layout.strides;
  }

  get elementCount(): number {
    return this.#known.elementCount;
  }

  /** Bytes of the elements, without the gaps between them. */
  get byteLength(): number {
    return this.#known.byteLength;
  }

  get device(): Device {
    return this.buffer.device;
  }

  get isContiguous(): boolean {
    return this.#known.isContiguous;
  }

  /**
   * Returns this array, with its element type known to the compiler.
   * @throws TypeError if the array has another dtype
   */
  expectDType<Wanted extends DType>(dtype: Wanted): DeviceArray<Wanted> {
    if (!isDType(dtype) || this.layout.dtype !== (dtype as DType)) {
      const found = `it is an array of ${this.layout.dtype}`;
      throw new TypeError(`Cannot use "${this.buffer.label}" as ${String(dtype)}: ${found}`);
    }
    return this as unknown as DeviceArray<Wanted>;
  }

  /** Copies all elements, in C order, into a new typed array. */
  async read(options: WaitOptions = {}): Promise<HostArray<D>> {
    const values = new (hostArrayType(this.dtype))(
      this.elementCount * hostEntriesPerElement(this.dtype),
    );
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    if (this.isContiguous) await this.buffer.read(this.layout.byteOffset, bytes, options);
    else await readStrided(this.buffer, this.layout, bytes, options);
    return values;
  }

  /**
   * Writes all elements, given in C order. A typed array of the same dtype is not copied first, so
   * it must not change until this resolves.
   * @throws READ_ONLY; RangeError for a wrong number of values
   */
  async write(values: HostValues<D>, options: WaitOptions = {}): Promise<void> {
    const bytes = toHostBytes(this.dtype, values, this.elementCount);
    if (this.isContiguous) await this.buffer.write(this.layout.byteOffset, bytes, options);
    else await writeStrided(this.buffer, this.layout, bytes, options);
  }

  /**
   * Returns the elements themselves, without a copy, on the host device. The rules of
   * `DeviceBuffer.view` apply.
   * @throws UNSUPPORTED on a GPU, and for an array with gaps
   */
  view(): HostArray<D> {
    if (!this.isContiguous) {
      throw new CudaIpcError(
        "UNSUPPORTED",
        `Cannot view "${this.buffer.label}": its elements are not contiguous; use read()`,
      );
    }
    return fromHostBytes(this.dtype, this.buffer.view(this.layout.byteOffset, this.byteLength));
  }

  /**
   * Copies all elements of another array of this process, on any device. With a stream, the copy is
   * enqueued on it.
   * @throws READ_ONLY, TypeError and RangeError for an array of another dtype or size, UNSUPPORTED
   * if either has gaps
   */
  async copyFrom(
    from: DeviceArray<D>,
    options: WaitOptions & { readonly stream?: Stream | undefined } = {},
  ): Promise<void> {
    checkCopy(options);
    if (options.stream === undefined) await copyArray(this, from, options);
    else enqueueCopy(options.stream, this, from);
  }

  /** Sets every byte to zero. The device does it. */
  async clear(options: WaitOptions = {}): Promise<void> {
    if (!this.isContiguous)
      return this.write(
        new (hostArrayType(this.dtype))(
          this.elementCount * hostEntriesPerElement(this.dtype),
        ) as unknown as HostValues<D>,
        options,
      );
    await this.buffer.fill(
      this.layout.byteOffset,
      { elementBytes: 1, value: 0 },
      this.byteLength,
      options,
    );
  }

  /**
   * Sets every element to the value, rounded to the dtype.
   *
   * The following also holds for `iota` and `affine`. The device computes. The dtype must have
   * arithmetic (not bool, float8 or complex), and the array must have no gaps. Integers wrap
   * around. 16-bit floats are computed in float32 and rounded once. The result has the same bits on
   * every device.
   * @throws READ_ONLY, UNSUPPORTED_DTYPE, UNSUPPORTED for an array with gaps, TypeError and
   * RangeError for a value that the dtype cannot hold
   */
  async fill(value: Scalar, options: OperationOptions = {}): Promise<void> {
    const done = fillArray(this, value, options);
    if (done !== undefined) await done;
  }

  /** Sets element i, in C order, to `start + i * step`. Throws as `fill`. */
  async iota(start: Scalar = 0, step: Scalar = 1, options: OperationOptions = {}): Promise<void> {
    const done = countUp(this, { start, step }, options);
    if (done !== undefined) await done;
  }

  /**
   * Sets every element to `a * x + b`, rounded after the product and after the sum. Here x is the
   * element itself, or the element of `from`, an array of the same dtype and size. Throws as
   * `fill`.
   */
  async affine(a: Scalar, b: Scalar, options: AffineOptions<D> = {}): Promise<void> {
    const done = affineArray(this, { a, b, from: options.from ?? this }, options);
    if (done !== undefined) await done;
  }

  /**
   * Counts the elements that differ from those of an array of the same dtype and size, and finds
   * the first in C order. It compares bits: equal NaN bits are equal, and 0 differs from -0. With
   * `rtol` or `atol` it compares values, as `numpy.isclose` does, if the dtype has arithmetic.
   * @throws UNSUPPORTED for an array with gaps; UNSUPPORTED_DTYPE; TypeError and RangeError for an
   * array that does not match
   */
  async compare(other: DeviceArray<D>, options: CompareOptions = {}): Promise<Comparison> {
    return compareArrays(this, other, options);
  }

  /**
   * Computes a 64-bit checksum of the bytes, the same on every device. It detects accidental
   * changes, not forgery.
   * @throws UNSUPPORTED for an array with gaps
   */
  async checksum(options: OperationOptions = {}): Promise<bigint> {
    return checksumArray(this, options);
  }

  /**
   * Computes minimum, maximum, mean and counts of the elements. All but the mean are exact; the
   * last digits of the mean may differ between devices.
   * @throws UNSUPPORTED_DTYPE, UNSUPPORTED for an array with gaps
   */
  async statistics(options: OperationOptions = {}): Promise<Statistics> {
    return arrayStatistics(this, options);
  }

  /**
   * Slices the array as numpy does: `slice(3, { start: 0, stop: 10, step: 2 })`. A number drops its
   * axis.
   */
  slice(...ranges: readonly (number | SliceRange)[]): DeviceArray<D> {
    return this.#with(sliceLayout(this.layout, ranges));
  }

  /** The same elements in another shape. @throws TypeError if that would need a copy */
  reshape(...shape: readonly number[]): DeviceArray<D> {
    return this.#with(reshapeLayout(this.layout, shape));
  }

  /** Reverses the axes, or puts them in the given order. */
  transpose(...axes: readonly number[]): DeviceArray<D> {
    return this.#with(transposeLayout(this.layout, axes.length === 0 ? undefined : axes));
  }

  /** Frees the memory if this array owns it. Closing a slice or reshape does nothing. */
  close(): void {
    this.#release();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  get #known(): LayoutFacts {
    this.#facts ??= layoutFacts(this.layout);
    return this.#facts;
  }

  #with(layout: ArrayLayout): DeviceArray<D> {
    return new DeviceArray(this.buffer, { ...layout, dtype: this.dtype });
  }
}
