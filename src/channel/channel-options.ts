/** The options of channels and readers, and the layout that follows from them. */
import { type DType, parseDType } from "../array/dtype.js";
import { arrayByteLength } from "../array/layout.js";
import { checkInteger, roundUp } from "../base/bytes.js";
import { checkNotAborted, type WaitOptions } from "../base/deadline.js";
import { limits } from "../base/limits.js";
import {
  aBoolean,
  type Checks,
  checkShape,
  integer,
  oneOf,
  optionsOf,
  waitChecks,
} from "../base/option-checks.js";
import { shownValue } from "../base/shown-value.js";
import { aDType, aStream } from "../gpu/option-checks.js";
import type { Stream } from "../gpu/order/stream.js";
import {
  controlByteLength,
  RANK_MAX,
  type WhenFull,
  type WhenWriterGone,
  whenFullPolicies,
  whenWriterGonePolicies,
} from "../ring/channel-layout.js";
import type { ReadFrom } from "../ring/ring-reader.js";
import type { ChannelShape } from "./channel-parts.js";

export interface ChannelOptions<D extends DType = DType> {
  /** The dtype of the elements. With `byteLength` it is `uint8`. */
  readonly dtype?: D | undefined;
  /** The shape of the largest message, which fills its slot. */
  readonly shape?: readonly number[] | undefined;
  /** Instead of dtype and shape: the most bytes of a message. */
  readonly byteLength?: number | undefined;
  /** Messages that the ring holds; 8 by default. */
  readonly slots?: number | undefined;
  /** The most readers at a time; 8 by default. */
  readonly readersMax?: number | undefined;
  /**
   * What the writer does if no slot is free. `wait` waits for the slowest reader and is the
   * default. `drop-oldest` overwrites the oldest message, and slow readers learn how many they
   * lost. `drop-newest` drops the new message. `error` throws.
   */
  readonly whenFull?: WhenFull | undefined;
  /** The most bytes of meta of a message; 256 by default. */
  readonly metaBytesMax?: number | undefined;
  /**
   * What the channel does when its writer is gone: it ends (`end`, the default), or its readers
   * `wait` for a process that calls `resumeChannel`.
   */
  readonly whenWriterGone?: WhenWriterGone | undefined;
}

export const channelChecks: Checks<ChannelOptions> = {
  dtype: aDType,
  shape: checkShape,
  byteLength: integer(1),
  slots: integer(1, limits.channelSlotsMax),
  readersMax: integer(1, limits.channelReadersMax),
  whenFull: oneOf(...whenFullPolicies),
  metaBytesMax: integer(0, limits.channelMetaBytesMax),
  whenWriterGone: oneOf(...whenWriterGonePolicies),
};

const checkChannelOptions = optionsOf<ChannelOptions>("a channel", channelChecks, {
  such: '{ dtype: "uint8", shape: [1080, 1920, 3], slots: 4 }',
  amongOthers: true,
});

const DEFAULTS = { slots: 8, readersMax: 8, metaBytesMax: 256 } as const;

/**
 * @param alignmentBytes of the device; slots begin at multiples of it
 * @throws TypeError, RangeError
 */
export function channelShape<D extends DType>(
  options: ChannelOptions<D>,
  alignmentBytes: number,
): ChannelShape<D> {
  checkChannelOptions(options);
  const { dtype, shape } = elementsOf(options);
  const slotBytes = arrayByteLength(dtype, shape);
  checkInteger("bytes of a slot", slotBytes, 1);
  const {
    slots = DEFAULTS.slots,
    readersMax = DEFAULTS.readersMax,
    metaBytesMax = DEFAULTS.metaBytesMax,
  } = options;
  const controlBytes = controlByteLength({ slots, metaBytesMax });
  if (controlBytes > limits.channelControlBytesMax) {
    const found =
      `${slots} slots with metaBytesMax ${metaBytesMax} need ${controlBytes} bytes of ` +
      "control file";
    throw new RangeError(
      `${found}, at most ${limits.channelControlBytesMax} (channelControlBytesMax)`,
    );
  }
  const slotStride = roundUp(slotBytes, alignmentBytes);
  checkInteger("bytes of all slots", slotStride * (slots + 1), 1);
  return {
    dtype,
    shape: [...shape],
    slots,
    readersMax,
    slotBytes,
    slotStride,
    metaBytesMax,
    whenFull: options.whenFull ?? "wait",
    whenWriterGone: options.whenWriterGone ?? "end",
  };
}

function elementsOf<D extends DType>({
  dtype,
  shape,
  byteLength,
}: ChannelOptions<D>): { dtype: D; shape: readonly number[] } {
  if (byteLength !== undefined) {
    if (shape !== undefined || (dtype !== undefined && dtype !== "uint8")) {
      throw new TypeError("a channel has either byteLength, or dtype and shape");
    }
    return { dtype: "uint8" as D, shape: [checkInteger("byteLength", byteLength, 1)] };
  }
  if (dtype === undefined || shape === undefined) {
    throw new TypeError("a channel needs dtype and shape, or byteLength");
  }
  parseDType(dtype);
  checkInteger("axes of a slot", shape.length, 0, RANK_MAX);
  return { dtype, shape };
}

export interface ReaderOptions {
  /**
   * Where to begin: at the message committed last (`latest`), at the oldest one kept (`oldest`), or
   * at the next one to come (`next`, the default).
   */
  readonly from?: ReadFrom | undefined;
  /**
   * Makes the reader lossy: the writer does not wait for it, and it loses messages if it is too
   * slow. With "drop-oldest" every reader is lossy.
   */
  readonly lossy?: boolean | undefined;
  /** The stream that works on the messages. It waits for their data and gives their slots back. */
  readonly stream?: Stream | undefined;
  /**
   * The longest time, in milliseconds, for which `next` spins and blocks the event loop; 0.02 by
   * default. Use 0 in a process that serves others, too.
   */
  readonly spinMs?: number | undefined;
}

/** @throws TypeError, RangeError */
function checkSpin(option: string, value: unknown): void {
  const message = `${option} must be a number from 0, not ${shownValue(value)}`;
  if (typeof value !== "number") throw new TypeError(message);
  if (!(value >= 0)) throw new RangeError(message);
}

export const readerChecks: Checks<ReaderOptions> = {
  from: oneOf("latest", "oldest", "next"),
  lossy: aBoolean,
  stream: aStream,
  spinMs: checkSpin,
};

/** The object may hold options for other parts of the call. */
const checkWaiting = optionsOf<WaitOptions>("next()", waitChecks);

/** Checks the options of a wait for a message. @throws ABORTED */
export function checkNext(attempt: string, options: WaitOptions): void {
  checkWaiting(options);
  checkNotAborted(attempt, options);
}

export const checkReaderOptions = optionsOf<ReaderOptions>("a reader", readerChecks, {
  amongOthers: true,
});
