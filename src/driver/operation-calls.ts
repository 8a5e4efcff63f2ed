/**
 * The computing calls of the seam: a few operations on elements. `cuda` runs kernels of this
 * project, `host` the CPU, and both give the same bits. Elements lie without gaps. A count of 0
 * does nothing.
 *
 * Floats: products and sums are each rounded to nearest, and subnormal numbers are kept. A NaN
 * result is the one pattern of `nanBits`. 16-bit floats are computed in float32 and rounded again
 * when stored. Integers wrap around.
 *
 * All throw RangeError for an address outside its memory and for an impossible count or value,
 * READ_ONLY for a read-only target, and UNSUPPORTED_DTYPE for a dtype without arithmetic. Nothing
 * is enqueued then.
 */
import type { ArithmeticDType, Scalar } from "../array/arithmetic.js";
import type { Statistics } from "../array/statistics.js";
import type { DevicePointer } from "./memory-calls.js";
import type { DriverStream } from "./stream-calls.js";

/** Addresses are multiples of the element size. */
export type ElementOperation =
  /** Every element becomes `value`, rounded to the dtype. */
  | {
      readonly kind: "fill";
      readonly dtype: ArithmeticDType;
      readonly to: DevicePointer;
      readonly count: number;
      readonly value: Scalar;
    }
  /** Element i becomes `i * step + start`. */
  | {
      readonly kind: "iota";
      readonly dtype: ArithmeticDType;
      readonly to: DevicePointer;
      readonly count: number;
      readonly start: Scalar;
      readonly step: Scalar;
    }
  /**
   * Element i becomes `a * from[i] + b`. `from` may equal `to`. If the ranges overlap in part, the
   * result is undefined.
   */
  | {
      readonly kind: "affine";
      readonly dtype: ArithmeticDType;
      readonly to: DevicePointer;
      readonly from: DevicePointer;
      readonly count: number;
      readonly a: Scalar;
      readonly b: Scalar;
    };

/** How many elements differ: in their bits, or by more than a tolerance. */
export interface Comparison {
  readonly differences: number;
  /** Index of the first element that differs; undefined if none does. */
  readonly first: number | undefined;
}

export type Reduction =
  /** The addresses need no alignment. */
  | {
      readonly kind: "compare";
      readonly elementBytes: 1 | 2 | 4 | 8 | 16;
      readonly a: DevicePointer;
      readonly b: DevicePointer;
      readonly count: number;
    }
  /**
   * Counts elements x of `a` and y of `b` that are not close: neither equal, nor is y finite and
   * |x - y| <= atol + rtol * |y|. All is computed in float64, so large 64-bit integers are rounded.
   * NaN is close to nothing. The addresses are multiples of the element size.
   */
  | {
      readonly kind: "close";
      readonly dtype: ArithmeticDType;
      readonly a: DevicePointer;
      readonly b: DevicePointer;
      readonly count: number;
      /** Finite numbers from 0. */
      readonly rtol: number;
      readonly atol: number;
    }
  /**
   * The sum modulo 2^64 of mix32(word[i] + i * 0x9E3779B1) over little-endian 32-bit words, the
   * last one padded with zeros. mix32 is the last step of MurmurHash3. The address needs no
   * alignment. The checksum detects accidents, not forgery.
   */
  | { readonly kind: "checksum"; readonly from: DevicePointer; readonly byteLength: number }
  /**
   * The extremes and counts are exact. The mean is summed in float64, in an order of the device's
   * own, so its last digits may differ between devices. A zero among the extremes is +0. The
   * address is a multiple of the element size.
   */
  | {
      readonly kind: "statistics";
      readonly dtype: ArithmeticDType;
      readonly from: DevicePointer;
      readonly count: number;
    };

export interface ReductionResults {
  readonly compare: Comparison;
  readonly close: Comparison;
  readonly checksum: bigint;
  readonly statistics: Statistics;
}

export type ReductionKind = Reduction["kind"];
export type ReductionOf<Kind extends ReductionKind> = Extract<Reduction, { kind: Kind }>;

/** A reduction under way. It holds memory: call one of the two after the stream has passed it. */
export interface PendingReduction<Result> {
  /** Returns the result and frees what the reduction used. Throws CLOSED the second time. */
  result(): Result;
  /** Frees what the reduction used, without a result. Does nothing after `result`. */
  discard(): void;
}

export interface OperationCalls {
  /**
   * Enqueues an operation. The first one on a device loads the kernels, and that may block on
   * streams that wait. If the driver's cache does not have them, it compiles them in some tenths of
   * a second. Call `prepareOperations` first to avoid both.
   */
  enqueueOperation(stream: DriverStream, operation: ElementOperation): void;
  /** Enqueues a reduction, with the same cost of the first one as `enqueueOperation`. */
  enqueueReduction<Kind extends ReductionKind>(
    stream: DriverStream,
    reduction: ReductionOf<Kind>,
  ): PendingReduction<ReductionResults[Kind]>;
  /** Loads and allocates what operations need, before any stream waits. Later calls do nothing. */
  prepareOperations(ordinal: number): void;
}
