/**
 * The descriptor of a channel, and the file descriptors of each of its roles. ring/channel-layout
 * describes the memory behind them.
 *
 *   0      1         2           3 + 2k             4 + 2k
 *   | data | control | room bell | page of seat k   | bell of seat k |    for each seat
 *
 *   writer    all of them, as they were made
 *   reader    data, control, room bell, its page, its bell
 *   observer  control, and each page
 */
import * as v from "valibot";
import { type DType, dtypes, isDType } from "../array/dtype.js";
import { wholePages } from "../base/bytes.js";
import { limits } from "../base/limits.js";
import {
  controlByteLength,
  memorySlots,
  PAGE_BYTES,
  RANK_MAX,
  whenFullPolicies,
  whenWriterGonePolicies,
} from "../ring/channel-layout.js";
import { count, positive } from "./schemas.js";

export const channelRoleSchema = v.picklist(["reader", "writer", "observer"]);
/** The seat of a reader, from 0. */
export const seatSchema = v.pipe(count, v.maxValue(limits.channelReadersMax - 1));

export type ChannelRole = v.InferOutput<typeof channelRoleSchema>;

/** The slots of a channel. `shape` and `slotBytes` are those of the largest message. */
export const channelContent = v.strictObject({
  kind: v.literal("channel"),
  dtype: v.custom<DType>(isDType, "not a dtype"),
  shape: v.pipe(v.array(count), v.maxLength(RANK_MAX)),
  slots: v.pipe(positive, v.maxValue(limits.channelSlotsMax)),
  readersMax: v.pipe(positive, v.maxValue(limits.channelReadersMax)),
  slotBytes: positive,
  slotStride: positive,
  metaBytesMax: v.pipe(count, v.maxValue(limits.channelMetaBytesMax)),
  whenFull: v.picklist(whenFullPolicies),
  whenWriterGone: v.picklist(whenWriterGonePolicies),
});

export type ChannelContent = v.InferOutput<typeof channelContent>;

/** How many descriptors a role gets. A writer gets all. */
export function channelFds(
  { readersMax }: Pick<ChannelContent, "readersMax">,
  role: ChannelRole = "writer",
): number {
  if (role === "reader") return 5;
  return role === "observer" ? 1 + readersMax : 3 + 2 * readersMax;
}

/** Bytes of the control file and all pages, in whole pages of memory. */
export function wordsByteLength(content: ChannelContent): number {
  return wholePages(controlByteLength(content)) + content.readersMax * PAGE_BYTES;
}

/**
 * Says why the content of a channel contradicts itself. Undefined if it does not.
 */
export function channelContradiction(
  content: ChannelContent,
  byteLength: number,
): string | undefined {
  const { dtype, shape, slotBytes, slotStride } = content;
  const { byteSize } = dtypes[dtype];
  const shapeBytes = shape.reduce((product, length) => product * length, byteSize);
  if (shapeBytes !== slotBytes) {
    return `slots of ${slotBytes} bytes for ${dtype}[${shape.join(", ")}] of ${shapeBytes}`;
  }
  if (slotStride < slotBytes) return `slots of ${slotBytes} bytes at every ${slotStride}th byte`;
  if (slotStride % byteSize !== 0)
    return `slots at every ${slotStride}th byte, between two of ${dtype}`;
  const memory = memorySlots(content);
  if (memory * slotStride !== byteLength) {
    return `${memory} slots at every ${slotStride}th byte in ${byteLength} bytes`;
  }
  const controlBytes = controlByteLength(content);
  if (controlBytes > limits.channelControlBytesMax) {
    return `a control file of ${controlBytes} bytes, over the limit (channelControlBytesMax)`;
  }
  return undefined;
}
