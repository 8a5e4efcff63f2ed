/** An array whose first axis grows: rows are appended to memory that grows without moving. */
import type { DType } from "../array/dtype.js";
import { type HostValues, hostEntriesPerElement, toHostBytes } from "../array/host-values.js";
import { arrayByteLength, contiguousLayout, elementCount } from "../array/layout.js";
import { checkInteger } from "../base/bytes.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import type { Device } from "./device.js";
import { type ArrayOptions, DeviceArray } from "./device-array.js";
import { GrowingBuffer } from "./growing-memory.js";
import { upload } from "./transfer.js";

export interface GrowingArrayOptions<D extends DType> {
  readonly dtype: D;
  /** At first; the first axis is the one that grows, and 0 is a good start. */
  readonly shape: readonly number[];
  /** The most rows that there can ever be. */
  readonly maxLength: number;
  /** The name in error messages. */
  readonly label?: string | undefined;
}

export class GrowingArray<D extends DType = DType> {
  readonly dtype: D;
  /** Of each row. */
  readonly rowShape: readonly number[];
  /** The memory; what is exported, and what follows in another process. */
  readonly memory: GrowingBuffer;
  readonly #rowByteLength: number;
  readonly #release: () => void;
  /** The last append that was asked for, done or not. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(memory: GrowingBuffer, row: ArrayOptions<D>, release: () => void) {
    this.dtype = row.dtype;
    this.rowShape = [...row.shape];
    this.memory = memory;
    this.#rowByteLength = checkInteger("Bytes of a row", arrayByteLength(row.dtype, row.shape), 1);
    this.#release = release;
  }

  /** A new array in memory of its own, which `close()` frees. @throws OUT_OF_MEMORY; RangeError for a shape without axes */
  static create<D extends DType>(device: Device, options: GrowingArrayOptions<D>): GrowingArray<D> {
    const { dtype, shape, maxLength, label } = options;
    const [length, ...rowShape] = shape;
    checkInteger("Length of the first axis", length ?? Number.NaN, 0, checkInteger("maxLength", maxLength, 1));
    const byteLength = arrayByteLength(dtype, shape);
    const maxByteLength = arrayByteLength(dtype, [maxLength, ...rowShape]);
    checkInteger("Bytes of all rows", maxByteLength, 1);
    const memory = GrowingBuffer.create(device, { byteLength, maxByteLength, label });
    return new GrowingArray(memory, { dtype, shape: rowShape }, () => memory.close());
  }

  /** The rows in memory that stays the caller's: here where it grows here, and as they come where it follows another process. */
  static over<D extends DType>(memory: GrowingBuffer, row: ArrayOptions<D>): GrowingArray<D> {
    return new GrowingArray(memory, row, () => {});
  }

  /** Rows that there are by now. */
  get length(): number {
    return Math.floor(this.memory.byteLength / this.#rowByteLength);
  }

  get shape(): readonly number[] {
    return [this.length, ...this.rowShape];
  }

  /** The rows that there are by now, as an array that stays as long as it is and owns nothing. */
  get array(): DeviceArray<D> {
    return new DeviceArray(this.memory.buffer, { ...contiguousLayout(this.dtype, this.shape), dtype: this.dtype });
  }

  /**
   * Writes rows behind those that there are; they count once they are written. Rows of several calls come in the order of the calls.
   * Of one that fails nothing is appended. The values must not change until this resolves.
   * @throws LIMIT_EXCEEDED, OUT_OF_MEMORY; RangeError for values that are no whole rows; UNSUPPORTED where this follows another process
   */
  append(values: HostValues<D>, options: WaitOptions = {}): Promise<void> {
    const before = this.#last;
    const mine = this.#appendAfter(before, values, options);
    this.#last = Promise.allSettled([before, mine]);
    return mine;
  }

  /** More rows without writing them: zero on the host device, undefined on a GPU. */
  grow(length: number): void {
    this.memory.grow(checkInteger("length", length, this.length) * this.#rowByteLength);
  }

  /** Frees the memory where this array owns it. */
  close(): void {
    this.#release();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #appendAfter(before: Promise<unknown>, values: HostValues<D>, options: WaitOptions): Promise<void> {
    const deadline = new Deadline(`append to "${this.memory.label}"`, options, Number.POSITIVE_INFINITY);
    const count = values.length / hostEntriesPerElement(this.dtype);
    const rows = count / elementCount(this.rowShape);
    if (!Number.isInteger(rows)) {
      const wanted = `whole rows of [${this.rowShape.join(", ")}]`;
      throw new RangeError(`Cannot append to "${this.memory.label}": found ${count} values, wanted ${wanted}`);
    }
    const bytes = toHostBytes(this.dtype, values, count);
    await deadline.race(before, () => {});
    const start = this.length * this.#rowByteLength;
    this.memory.reserve(start + bytes.byteLength);
    const wait = { signal: options.signal, timeoutMs: deadline.remainingMs };
    await this.memory.buffer.use("write", wait, (mapped, left) => upload(mapped, start, bytes, left));
    this.memory.grow(start + bytes.byteLength);
  }
}
