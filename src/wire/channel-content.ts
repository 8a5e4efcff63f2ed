/**
 * What the descriptor of a channel says, and which file descriptors it has: all of them where it is created, and what each role is
 * given of them. What lies in the memory is in ring/channel-layout.
 *
 *   0      1         2           3 + 2k             4 + 2k
 *   | data | control | room bell | page of place k  | bell of place k |    for each of `readersMax` places
 *
 *   writer    all of them, as they were made
 *   reader    data, control, room bell, its page, its bell
 *   observer  control, and each page
 */
import * as v from "valibot";
import { type DType, dtypes, isDType } from "../array/dtype.js";
import { limits } from "../base/limits.js";
import {
  controlByteLength,
  memorySlots,
  PAGE_BYTES,
  RANK_MAX,
  whenFullPolicies,
  whenWriterGonePolicies,
} from "../ring/channel-layout.js";
import { count, positive } from "./numbers.js";

export const channelRoleSchema = v.picklist(["reader", "writer", "observer"]);
/** Of a reader, from 0. */
export const placeSchema = v.pipe(count, v.maxValue(limits.channelReadersMax - 1));

export type ChannelRole = v.InferOutput<typeof channelRoleSchema>;

/** The slots of a channel: `shape` and `slotBytes` are of one message at most. */
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

/** Where the descriptors of a channel are among all of them. */
export const channelFdsAt = {
  data: 0,
  control: 1,
  roomBell: 2,
  page: (place: number) => 3 + 2 * place,
  bell: (place: number) => 4 + 2 * place,
} as const;

/** Where they are among those that a reader gets. */
export const readerFdsAt = { data: 0, control: 1, roomBell: 2, page: 3, bell: 4 } as const;

/** How many descriptors a channel has, or those who open it get. */
export function channelFds({ readersMax }: Pick<ChannelContent, "readersMax">, role: ChannelRole = "writer"): number {
  if (role === "reader") return 5;
  return role === "observer" ? 1 + readersMax : 3 + 2 * readersMax;
}

/** Of the control file and all pages. */
export function wordsByteLength(content: ChannelContent): number {
  return controlByteLength(content) + content.readersMax * PAGE_BYTES;
}

/** What contradicts itself in a channel with so many bytes of slots; undefined where nothing does. */
export function channelContradiction(content: ChannelContent, byteLength: number): string | undefined {
  const { dtype, shape, slotBytes, slotStride } = content;
  const { byteSize } = dtypes[dtype];
  const shapeBytes = shape.reduce((product, length) => product * length, byteSize);
  if (shapeBytes !== slotBytes) {
    return `slots of ${slotBytes} bytes for ${dtype}[${shape.join(", ")}] of ${shapeBytes}`;
  }
  if (slotStride < slotBytes) return `slots of ${slotBytes} bytes at every ${slotStride}th byte`;
  if (slotStride % byteSize !== 0) return `slots at every ${slotStride}th byte, between two of ${dtype}`;
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
