/**
 * The seam's part on computing: a few operations on elements, done by kernels of this project on `cuda` and by the CPU on `host`,
 * with the same bits as results. Elements lie without gaps. A count of 0 does nothing.
 *
 * Floats: products and sums are rounded to nearest one after the other, subnormal numbers are kept, and a result that is NaN is the
 * one pattern of `nanBits`. 16-bit floats are computed in float32 and rounded once more when stored. Integers wrap around.
 *
 * All throw RangeError for addresses outside of their memory and for counts and values that cannot be, READ_ONLY where the target
 * is there for reading, UNSUPPORTED_DTYPE for a dtype without arithmetic; nothing is enqueued then.
 */
import type { ArithmeticDType, Scalar } from "../array/arithmetic.js";
import type { Statistics } from "../array/statistics.js";
import type { DevicePointer, DriverStream } from "./gpu-driver.js";

/** Addresses are multiples of the element. */
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
  /** Element i becomes `a * from[i] + b`; `from` may be `to`, and ranges that overlap in part give an undefined result. */
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

export type Reduction =
  /** At any addresses. */
  | {
      readonly kind: "compare";
      readonly elementBytes: 1 | 2 | 4 | 8 | 16;
      readonly a: DevicePointer;
      readonly b: DevicePointer;
      readonly count: number;
    }
  /**
   * The sum modulo 2^64 of mix32(word[i] + i * 0x9E3779B1) over little-endian 32-bit words, the last one padded with zeros;
   * mix32 is the last step of MurmurHash3. At any address. It finds accidents, not forgery.
   */
  | { readonly kind: "checksum"; readonly from: DevicePointer; readonly byteLength: number }
  /**
   * The extremes and counts are exact. The mean is summed in float64, in an order of the device's own: its last digits may differ
   * between devices. A zero among the extremes is +0. The address is a multiple of the element.
   */
  | {
      readonly kind: "statistics";
      readonly dtype: ArithmeticDType;
      readonly from: DevicePointer;
      readonly count: number;
    };

export interface ReductionResults {
  readonly compare: Comparison;
  readonly checksum: bigint;
  readonly statistics: Statistics;
}

export type ReductionKind = Reduction["kind"];
export type ReductionOf<Kind extends ReductionKind> = Extract<Reduction, { kind: Kind }>;

/** A reduction under way. One of the two is called, once the stream has passed it: it holds memory until then. */
export interface PendingReduction<Result> {
  /** Gives back what the reduction used. A second time is CLOSED. */
  result(): Result;
  /** Gives back what the reduction used where the result is not wanted; nothing after `result`. */
  discard(): void;
}

export interface OperationCalls {
  /**
   * Enqueues an operation. The first one on a device loads the kernels, which may wait for streams that wait; the driver compiles them
   * where its cache does not have them, in some tenths of a second. `prepareOperations` does it before.
   */
  enqueueOperation(stream: DriverStream, operation: ElementOperation): void;
  /** Enqueues a reduction; as `enqueueOperation`. */
  enqueueReduction<Kind extends ReductionKind>(
    stream: DriverStream,
    reduction: ReductionOf<Kind>,
  ): PendingReduction<ReductionResults[Kind]>;
  /** Loads and allocates what operations need, before any stream waits for anything. A second time it does nothing. */
  prepareOperations(ordinal: number): void;
}
