/** Fills and verifies the arrays of demos, a piece at a time. */
import { CudaIpcError } from "../../base/errors.js";
import { readPieces } from "../../files/array-pieces.js";
import type { DeviceArray } from "../../gpu/arrays/device-array.js";

const PIECE_ELEMENTS = 1024 * 1024;

/** The value at an index, rounded to float32. */
export type ValueAt = (i: number) => number;

export async function fillArray(array: DeviceArray<"float32">, valueAt: ValueAt): Promise<void> {
  for (let start = 0; start < array.elementCount; start += PIECE_ELEMENTS) {
    const stop = Math.min(array.elementCount, start + PIECE_ELEMENTS);
    await array
      .slice({ start, stop })
      .write(Float32Array.from({ length: stop - start }, (_, i) => valueAt(start + i)));
  }
}

/**
 * Compares every element.
 * @throws VERIFICATION_FAILED, which names the first wrong element
 */
export async function verifyArray(array: DeviceArray<"float32">, valueAt: ValueAt): Promise<void> {
  let start = 0;
  for await (const piece of readPieces(array)) {
    const values = new Float32Array(piece.buffer, piece.byteOffset, piece.byteLength / 4);
    const at = firstDifference(values, start, valueAt);
    if (at !== undefined) {
      const found = `element ${start + at} is ${values[at]}, expected ${valueAt(start + at)}`;
      throw new CudaIpcError(
        "VERIFICATION_FAILED",
        `The array does not hold what was written: ${found}`,
      );
    }
    start += values.length;
  }
  if (start !== array.elementCount) {
    throw new CudaIpcError(
      "VERIFICATION_FAILED",
      `Only ${start} of ${array.elementCount} elements were read`,
    );
  }
}

/** Uses Object.is, because 0 and -0 are equal but have different bytes. */
export function firstDifference(
  values: Float32Array,
  start: number,
  valueAt: ValueAt,
): number | undefined {
  const at = values.findIndex((value, i) => !Object.is(value, valueAt(start + i)));
  return at < 0 ? undefined : at;
}
