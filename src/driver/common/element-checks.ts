/**
 * Checks of element operations and reductions that both drivers make, and the memory they touch.
 */
import {
  checkArithmetic,
  computeByteLength,
  elementBytes,
  ScalarWords,
  storeComputed,
} from "../../array/arithmetic.js";
import { type DType, type DTypeFacts, dtypeFacts } from "../../array/dtype.js";
import { checkInteger } from "../../base/bytes.js";
import { shownValue } from "../../base/shown-value.js";
import type { Access } from "../../os/mapping.js";
import type { DevicePointer } from "../memory-calls.js";
import type { ElementOperation, Reduction } from "../operation-calls.js";
import { checkMultiple } from "./argument-checks.js";

/** Memory that an operation touches. */
export interface Touched {
  readonly address: DevicePointer;
  readonly byteLength: number;
  readonly access: Access;
}

export interface CheckedOperation {
  readonly touched: readonly Touched[];
  /** The values as bytes: in the dtype for fill, in the computing type for the others. */
  readonly scalars: readonly Uint8Array[];
}

/** An operation that computes with two scalars. */
export type ComputingOperation = Exclude<ElementOperation, { kind: "fill" }>;

/** @throws RangeError, TypeError, UNSUPPORTED_DTYPE */
export function checkOperation(operation: ElementOperation): CheckedOperation {
  const byteLength = checkOperands(operation);
  const { kind, dtype, to } = operation;
  const target: Touched = { address: to, byteLength, access: "read-write" };
  if (kind === "fill")
    return { touched: [target], scalars: [elementBytes("Fill: value", dtype, operation.value)] };
  const scalars = scalarBytes(operation);
  if (kind === "iota") return { touched: [target], scalars };
  return { touched: [target, { address: operation.from, byteLength, access: "read" }], scalars };
}

/**
 * The first part of `checkOperation`: everything except the scalars. It allocates nothing.
 * @returns the byte length of each range that the operation touches
 */
export function checkOperands(operation: ElementOperation): number {
  const { kind, to, count } = operation;
  const dtype = checkArithmetic(kind, operation.dtype);
  const byteLength = checkElements(kind, dtype, to, count);
  if (kind === "affine") checkElements(kind, dtype, operation.from, count);
  else if (kind !== "fill" && kind !== "iota")
    throw new TypeError(`Unknown operation ${String(kind)}`);
  return byteLength;
}

/** The second part: checks both scalars and stores them in the computing type. */
export function storeScalars(operation: ComputingOperation, words: ScalarWords, at: number): void {
  const { kind, dtype } = operation;
  if (kind === "iota") {
    storeComputed("Iota: start", dtype, operation.start, words, at);
    storeComputed("Iota: step", dtype, operation.step, words, at + 1);
  } else {
    storeComputed("Affine: a", dtype, operation.a, words, at);
    storeComputed("Affine: b", dtype, operation.b, words, at + 1);
  }
}

function scalarBytes(operation: ComputingOperation): Uint8Array[] {
  const words = new ScalarWords(2);
  storeScalars(operation, words, 0);
  const byteLength = computeByteLength(operation.dtype);
  return [words.bytes.slice(0, byteLength), words.bytes.slice(8, 8 + byteLength)];
}

/** @throws RangeError, TypeError, UNSUPPORTED_DTYPE */
export function checkReduction(reduction: Reduction): readonly Touched[] {
  const { kind } = reduction;
  switch (kind) {
    case "compare": {
      if (![1, 2, 4, 8, 16].includes(reduction.elementBytes)) {
        throw new RangeError(
          `Compare: elementBytes must be 1, 2, 4, 8 or 16, not ${String(reduction.elementBytes)}`,
        );
      }
      const byteLength =
        checkInteger("Compare: count", reduction.count, 0) * reduction.elementBytes;
      checkInteger("Compare: bytes", byteLength, 0);
      return [reduction.a, reduction.b].map((address) => ({ address, byteLength, access: "read" }));
    }
    case "close": {
      const { dtype, a, b, count } = reduction;
      const checked = checkArithmetic(kind, dtype);
      checkTolerance("rtol", reduction.rtol);
      checkTolerance("atol", reduction.atol);
      return [a, b].map((address) => {
        const byteLength = checkElements(kind, checked, address, count);
        return { address, byteLength, access: "read" };
      });
    }
    case "checksum": {
      const byteLength = checkInteger("Checksum: byteLength", reduction.byteLength, 0);
      return [{ address: reduction.from, byteLength, access: "read" }];
    }
    case "statistics": {
      const dtype = checkArithmetic(kind, reduction.dtype);
      const byteLength = checkElements(kind, dtype, reduction.from, reduction.count);
      return [{ address: reduction.from, byteLength, access: "read" }];
    }
    default:
      throw new TypeError(`Unknown reduction ${String(kind)}`);
  }
}

function checkTolerance(what: string, value: number): void {
  if (typeof value === "number" && value >= 0 && value < Number.POSITIVE_INFINITY) return;
  const message = `${what} must be a finite number from 0, not ${shownValue(value)}`;
  throw typeof value === "number" ? new RangeError(message) : new TypeError(message);
}

/** Returns the byte length of the elements. */
function checkElements(what: string, dtype: DType, address: DevicePointer, count: number): number {
  const { byteSize } = dtypeFacts(dtype);
  // WHY the first test: building the message costs more than all the checks.
  if ((address & masks[byteSize]) !== 0n)
    checkMultiple(`Address of ${dtype} for ${what}`, address, byteSize);
  const byteLength = count * byteSize;
  if (Number.isSafeInteger(count) && count >= 0 && Number.isSafeInteger(byteLength))
    return byteLength;
  return checkInteger(
    `Bytes for ${what}`,
    checkInteger(`Count for ${what}`, count, 0) * byteSize,
    0,
  );
}

/** The bits that are 0 in an address aligned for elements of this size. */
const masks: Readonly<Record<DTypeFacts["byteSize"], bigint>> = {
  1: 0n,
  2: 1n,
  4: 3n,
  8: 7n,
  16: 15n,
};
