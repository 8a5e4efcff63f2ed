/**
 * Array contents that carry a stamp of their writing, so a reader detects half-written or
 * unpublished data.
 */
import assert from "node:assert/strict";
import { CudaIpcError } from "../../../src/base/errors.js";

/** Large enough that writing takes more than one store, small enough to compare quickly. */
export const STAMPED = { dtype: "int32", shape: [4096] } as const;

export function stampedValues(stamp: number): Int32Array {
  return Int32Array.from({ length: STAMPED.shape[0] }, (_, index) => valueAt(stamp, index));
}

/**
 * The stamp of these values.
 * @throws VERIFICATION_FAILED if they are not all of one write
 */
export function stampOf(values: ArrayLike<number | bigint>): number {
  const stamp = Number(values[0]);
  for (let index = 0; index < STAMPED.shape[0]; index += 1) {
    if (values[index] === valueAt(stamp, index)) continue;
    const found = `element ${index} is ${values[index]}, wanted ${valueAt(stamp, index)}`;
    throw new CudaIpcError(
      "VERIFICATION_FAILED",
      `Cannot take this for writing ${stamp}: ${found}`,
    );
  }
  return stamp;
}

export function assertStamp(values: ArrayLike<number | bigint>, stamp: number, what: string): void {
  assert.equal(stampOf(values), stamp, what);
}

function valueAt(stamp: number, index: number): number {
  return index === 0 ? stamp : Math.imul(stamp + 1, 1_000_003) ^ index;
}
