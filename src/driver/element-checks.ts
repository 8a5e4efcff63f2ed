/** What both drivers demand of operations on elements and of reductions, and the memory that these touch. */
import { checkArithmetic, computeBytes, elementBytes } from "../array/arithmetic.js";
import { type DType, dtypeFacts } from "../array/dtype.js";
import { checkInteger } from "../base/bytes.js";
import type { Access } from "../os/mapping.js";
import type { DevicePointer } from "./gpu-driver.js";
import type { ElementOperation, Reduction } from "./operation-calls.js";
import { checkMultiple } from "./operation-checks.js";

/** Memory that an operation touches. */
export interface Touched {
  readonly address: DevicePointer;
  readonly byteLength: number;
  readonly access: Access;
}

/** An operation that was found in order. */
export interface CheckedOperation {
  readonly touched: readonly Touched[];
  /** The values to compute with as bytes: of the element for fill, of the type that is computed in for the others. */
  readonly scalars: readonly Uint8Array[];
}

/** @throws RangeError, TypeError, UNSUPPORTED_DTYPE */
export function checkOperation(operation: ElementOperation): CheckedOperation {
  const { kind, to, count } = operation;
  const dtype = checkArithmetic(kind, operation.dtype);
  const byteLength = checkElements(kind, dtype, to, count);
  const target: Touched = { address: to, byteLength, access: "read-write" };
  switch (kind) {
    case "fill":
      return { touched: [target], scalars: [elementBytes("Fill: value", dtype, operation.value)] };
    case "iota": {
      const start = computeBytes("Iota: start", dtype, operation.start);
      return { touched: [target], scalars: [start, computeBytes("Iota: step", dtype, operation.step)] };
    }
    case "affine": {
      checkElements(kind, dtype, operation.from, count);
      const a = computeBytes("Affine: a", dtype, operation.a);
      const b = computeBytes("Affine: b", dtype, operation.b);
      return { touched: [target, { address: operation.from, byteLength, access: "read" }], scalars: [a, b] };
    }
    default:
      throw new TypeError(`Unknown operation ${String(kind)}`);
  }
}

/** @throws RangeError, TypeError, UNSUPPORTED_DTYPE */
export function checkReduction(reduction: Reduction): readonly Touched[] {
  const { kind } = reduction;
  switch (kind) {
    case "compare": {
      if (![1, 2, 4, 8, 16].includes(reduction.elementBytes)) {
        throw new RangeError(`Compare: elementBytes must be 1, 2, 4, 8 or 16, not ${String(reduction.elementBytes)}`);
      }
      const byteLength = checkInteger("Compare: count", reduction.count, 0) * reduction.elementBytes;
      checkInteger("Compare: bytes", byteLength, 0);
      return [reduction.a, reduction.b].map((address) => ({ address, byteLength, access: "read" }));
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

/** The bytes of the elements. */
function checkElements(what: string, dtype: DType, address: DevicePointer, count: number): number {
  const { byteSize } = dtypeFacts(dtype);
  checkMultiple(`Address of ${dtype} for ${what}`, address, byteSize);
  return checkInteger(`Bytes for ${what}`, checkInteger(`Count for ${what}`, count, 0) * byteSize, 0);
}
