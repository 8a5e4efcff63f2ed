/**
 * The seam's part on computing: a few operations on elements, done by kernels of this project on `cuda` and by the CPU on `host`,
 * with the same results. Elements lie without gaps.
 */
import type { DType } from "../array/dtype.js";
import type { DevicePointer, DriverStream } from "./gpu-driver.js";

/** Element types with arithmetic: those of `src/array/dtype.ts` without bool, float8 and complex. */
export type ArithmeticDType = Exclude<DType, "bool" | "float8_e4m3fn" | "float8_e5m2" | "complex64" | "complex128">;

/** A number; for 64-bit integers a bigint. */
export type Scalar = number | bigint;

export type ElementOperation =
  /** Every element becomes `value`. */
  | {
      readonly kind: "fill";
      readonly dtype: ArithmeticDType;
      readonly to: DevicePointer;
      readonly count: number;
      readonly value: Scalar;
    }
  /** Element i becomes `start + i * step`, computed in the dtype (16-bit floats in float32) and wrapping for integers. */
  | {
      readonly kind: "iota";
      readonly dtype: ArithmeticDType;
      readonly to: DevicePointer;
      readonly count: number;
      readonly start: Scalar;
      readonly step: Scalar;
    }
  /** Element i becomes `a * from[i] + b`, product and sum rounded one after the other; `from` may be `to`. */
  | {
      readonly kind: "affine";
      readonly dtype: ArithmeticDType;
      readonly to: DevicePointer;
      readonly from: DevicePointer;
      readonly count: number;
      readonly a: Scalar;
      readonly b: Scalar;
    };

/** Counts elements whose bits differ. */
export interface Comparison {
  readonly differences: number;
  /** Index of the first element that differs; undefined where none does. */
  readonly first: number | undefined;
}

export interface ElementStatistics {
  readonly nanCount: number;
  /** Of the elements that are not NaN; undefined where there is none. A bigint for 64-bit integers. */
  readonly min: Scalar | undefined;
  readonly max: Scalar | undefined;
  /** Of the finite elements; undefined where there is none. Summed in float64, in an order of the device's own. */
  readonly mean: number | undefined;
}

export type Reduction =
  | {
      readonly kind: "compare";
      readonly elementBytes: 1 | 2 | 4 | 8 | 16;
      readonly a: DevicePointer;
      readonly b: DevicePointer;
      readonly count: number;
    }
  /** The sum modulo 2^64 of mix32(word[i] + i * 0x9E3779B1) over little-endian 32-bit words, the last one padded with zeros. */
  | { readonly kind: "checksum"; readonly from: DevicePointer; readonly byteLength: number }
  | {
      readonly kind: "statistics";
      readonly dtype: ArithmeticDType;
      readonly from: DevicePointer;
      readonly count: number;
    };

export type ReductionResult<Kind extends Reduction["kind"]> = {
  compare: Comparison;
  checksum: bigint;
  statistics: ElementStatistics;
}[Kind];

/** A reduction under way: `result` once the stream is idle. */
export interface PendingReduction<Kind extends Reduction["kind"]> {
  /** Call once, after the stream has passed it; gives back what the reduction used. */
  result(): ReductionResult<Kind>;
  /** Gives back what the reduction used where the result is not wanted any more; the stream has passed it. */
  discard(): void;
}

export interface OperationCalls {
  /** Enqueues an operation. The first one on a device loads the kernels, which takes some milliseconds: `prepareOperations` does it before. */
  enqueueOperation(stream: DriverStream, operation: ElementOperation): void;
  enqueueReduction<Kind extends Reduction["kind"]>(
    stream: DriverStream,
    reduction: Extract<Reduction, { kind: Kind }>,
  ): PendingReduction<Kind>;
  /** Loads what operations need, before any stream waits for anything. */
  prepareOperations(ordinal: number): void;
}
