/** An array whose first axis grows: rows are appended to memory that never moves. */
import type { DType } from "../../array/dtype.js";
import { type HostValues, hostEntriesPerElement, toHostBytes } from "../../array/host-values.js";
import { arrayByteLength, contiguousLayout, elementCount } from "../../array/layout.js";
import { checkInteger } from "../../base/bytes.js";
import { Deadline, type WaitOptions } from "../../base/deadline.js";
import { aString, checkShape, integer, optionsOf } from "../../base/option-checks.js";
import { checkWait } from "../../base/wait-checks.js";
import { checkDevice } from "../check-arguments.js";
import type { Device } from "../device.js";
import { GrowingBuffer } from "../memory/growing-buffer.js";
import { aDType } from "../option-checks.js";
import { upload } from "../transfer/byte-transfer.js";
import { type ArrayOptions, DeviceArray } from "./device-array.js";

export interface GrowingArrayOptions<D extends DType> {
  readonly dtype: D;
  /** The initial shape. The first axis grows; 0 is a good start for it. */
  readonly shape: readonly number[];
  /** Maximum number of rows, ever. */
  readonly maxLength: number;
  /** The name in error messages. */
  readonly label?: string | undefined;
}

const checkCreate = optionsOf<GrowingArrayOptions<DType>>(
  "GrowingArray.create()",
  { dtype: aDType, shape: checkShape, maxLength: integer(1), label: aString },
  { needs: ["dtype", "shape", "maxLength"] },
);

export class GrowingArray<D extends DType = DType> {
  readonly dtype: D;
  /** Shape of one row. */
  readonly rowShape: readonly number[];
  /** The memory. Export it, or let it follow in another process. */
  readonly memory: GrowingBuffer;
  readonly #rowByteLength: number;
  readonly #release: () => void;
  /** The latest append, finished or not. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(memory: GrowingBuffer, row: ArrayOptions<D>, release: () => void) {
    this.dtype = row.dtype;
    this.rowShape = [...row.shape];
    this.memory = memory;
    this.#rowByteLength = checkInteger("Bytes of a row", arrayByteLength(row.dtype, row.shape), 1);
    this.#release = release;
  }

  /**
   * Creates an array in its own memory, which `close()` frees.
   * @throws OUT_OF_MEMORY; RangeError for a shape without axes
   */
  static create<D extends DType>(device: Device, options: GrowingArrayOptions<D>): GrowingArray<D> {
    checkDevice(device);
    checkCreate(options);
    const { dtype, shape, maxLength, label } = options;
    const [length, ...rowShape] = shape;
    checkInteger(
      "Length of the first axis",
      length ?? Number.NaN,
      0,
      checkInteger("maxLength", maxLength, 1),
    );
    const byteLength = arrayByteLength(dtype, shape);
    const maxByteLength = arrayByteLength(dtype, [maxLength, ...rowShape]);
    checkInteger("Bytes of all rows", maxByteLength, 1);
    const memory = GrowingBuffer.create(device, { byteLength, maxByteLength, label });
    return new GrowingArray(memory, { dtype, shape: rowShape }, () => memory.close());
  }

  /**
   * Makes an array over growing memory, which the caller still owns. You can append if this process
   * grows the memory. If it follows another process, `memory.follow()` brings its new rows.
   */
  static over<D extends DType>(memory: GrowingBuffer, row: ArrayOptions<D>): GrowingArray<D> {
    return new GrowingArray(memory, row, () => {});
  }

  /** Current number of rows. */
  get length(): number {
    return Math.floor(this.memory.byteLength / this.#rowByteLength);
  }

  get shape(): readonly number[] {
    return [this.length, ...this.rowShape];
  }

  /** The current rows as an array of fixed length, which does not own the memory. */
  get array(): DeviceArray<D> {
    return new DeviceArray(this.memory.buffer, {
      ...contiguousLayout(this.dtype, this.shape),
      dtype: this.dtype,
    });
  }

  /**
   * Appends rows. `length` grows once they are written. Concurrent calls append in the order of the
   * calls; a failed call appends nothing. The values must not change until this resolves.
   * @throws LIMIT_EXCEEDED, OUT_OF_MEMORY; RangeError if the values are not whole rows; UNSUPPORTED
   * if this array follows another process
   */
  append(values: HostValues<D>, options: WaitOptions = {}): Promise<void> {
    checkWait(options);
    const before = this.#last;
    const mine = this.#appendAfter(before, values, options);
    this.#last = Promise.allSettled([before, mine]);
    return mine;
  }

  /** Adds rows without writing them. They are zero on the host device, and undefined on a GPU. */
  grow(length: number): void {
    this.memory.grow(checkInteger("length", length, this.length) * this.#rowByteLength);
  }

  /** Frees the memory if this array owns it. */
  close(): void {
    this.#release();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #appendAfter(
    before: Promise<unknown>,
    values: HostValues<D>,
    options: WaitOptions,
  ): Promise<void> {
    const deadline = new Deadline(
      `append to "${this.memory.label}"`,
      options,
      Number.POSITIVE_INFINITY,
    );
    const count = values.length / hostEntriesPerElement(this.dtype);
    const rows = count / elementCount(this.rowShape);
    if (!Number.isInteger(rows)) {
      const wanted = `whole rows of [${this.rowShape.join(", ")}]`;
      throw new RangeError(
        `Cannot append to "${this.memory.label}": found ${count} values, wanted ${wanted}`,
      );
    }
    const bytes = toHostBytes(this.dtype, values, count);
    await deadline.race(before, () => {});
    const start = this.length * this.#rowByteLength;
    this.memory.reserve(start + bytes.byteLength);
    const wait = { signal: options.signal, timeoutMs: deadline.remainingMs };
    await this.memory.buffer.use("write", wait, (mapped, left) =>
      upload(mapped, start, bytes, left),
    );
    this.memory.grow(start + bytes.byteLength);
  }
}
