/** What a channel is to be like, as the caller says it and as it is laid out. */
import { type DType, parseDType } from "../array/dtype.js";
import { arrayByteLength } from "../array/layout.js";
import { checkInteger, roundUp } from "../base/bytes.js";
import { limits } from "../base/limits.js";
import { type Checks, checkShape, integer, oneOf, optionsOf } from "../base/option-checks.js";
import { aDType } from "../gpu/option-checks.js";
import {
  controlByteLength,
  RANK_MAX,
  type WhenFull,
  type WhenWriterGone,
  whenFullPolicies,
  whenWriterGonePolicies,
} from "../ring/channel-layout.js";
import type { ChannelShape } from "./channel-parts.js";

export interface ChannelOptions<D extends DType = DType> {
  /** Of the elements of a message; `uint8` where `byteLength` is given instead of a shape. */
  readonly dtype?: D | undefined;
  /** Of a message that fills its slot, which none exceeds. */
  readonly shape?: readonly number[] | undefined;
  /** Instead of dtype and shape: messages of so many bytes at most. */
  readonly byteLength?: number | undefined;
  /** How many messages the ring holds; 8 by default. */
  readonly slots?: number | undefined;
  /** How many readers there can be at a time; 8 by default. */
  readonly readersMax?: number | undefined;
  /**
   * What the writer does where no slot is free: `wait` for the slowest reader (default), overwrite the message that was committed first
   * (`drop-oldest`: slow readers lose messages, and are told how many), not write the new one (`drop-newest`), or throw (`error`).
   */
  readonly whenFull?: WhenFull | undefined;
  /** How many bytes of meta go with a message at most; 256 by default. */
  readonly metaBytesMax?: number | undefined;
  /** What becomes of the channel without its writer: it ends (`end`, default), or readers `wait` for one who calls `resumeChannel`. */
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
});

const DEFAULTS = { slots: 8, readersMax: 8, metaBytesMax: 256 } as const;

/**
 * @param alignmentBytes of the device: slots begin at multiples of it
 * @throws TypeError, RangeError
 */
export function channelShape<D extends DType>(options: ChannelOptions<D>, alignmentBytes: number): ChannelShape<D> {
  checkChannelOptions(options);
  const { dtype, shape } = elementsOf(options);
  const slotBytes = arrayByteLength(dtype, shape);
  checkInteger("bytes of a slot", slotBytes, 1);
  const { slots = DEFAULTS.slots, readersMax = DEFAULTS.readersMax, metaBytesMax = DEFAULTS.metaBytesMax } = options;
  const controlBytes = controlByteLength({ slots, metaBytesMax });
  if (controlBytes > limits.channelControlBytesMax) {
    const found = `${slots} slots with metaBytesMax ${metaBytesMax} need ${controlBytes} bytes of control file`;
    throw new RangeError(`${found}, at most ${limits.channelControlBytesMax} (channelControlBytesMax)`);
  }
  const slotStride = roundUp(slotBytes, alignmentBytes);
  checkInteger("bytes of all slots", slotStride * (slots + 1), 1);
  return {
    dtype,
    shape: [...shape],
    slotBytes,
    slotStride,
    slots,
    readersMax,
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
