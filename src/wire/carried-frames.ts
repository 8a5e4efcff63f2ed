/**
 * The frames of a carried channel, as fixed words, because they come often. Little-endian. Zero and
 * `{` begin no such frame, so a frame of JSON is never taken for one.
 *
 *     message | 1: 1 byte | flags: 1 | axes: 1 | 0: 5 | read: 8 | sequence: 8 | byteLength: 8 |
 *             | export, or 0: 8 | length of each axis: 8 | meta |
 *     more    | 2: 1 byte | 0: 7 | read: 8 | count: 8 |
 *
 * `read` is the id of the call that asked for the messages. The bytes of a message of at most
 * `limits.carriedInlineBytes` are in the same frame. A larger one is an export, which `send` copies
 * and `end` gives back.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { RANK_MAX } from "../ring/channel-layout.js";

export interface CarriedMessage {
  readonly kind: "message";
  readonly read: number;
  readonly sequence: number;
  readonly byteLength: number;
  /** Undefined if the bytes are in the frame. */
  readonly export: number | undefined;
  /** Undefined if the message has no shape of its own. */
  readonly shape: readonly number[] | undefined;
  /** Empty if there is none. */
  readonly meta: Uint8Array;
  readonly metaIsJson: boolean;
}

/** Asks for this many further messages of a read. */
export interface MoreMessages {
  readonly kind: "more";
  readonly read: number;
  readonly count: number;
}

export type CarriedFrame = CarriedMessage | MoreMessages;

const MESSAGE = 1;
const MORE = 2;
const JSON_META = 1;
const SHAPED = 2;
const MESSAGE_BYTES = 40;
const MORE_BYTES = 24;
const AXIS_BYTES = 8;

export function isCarriedFrame(head: Uint8Array): boolean {
  return head[0] === MESSAGE || head[0] === MORE;
}

export function encodeMessage(message: Omit<CarriedMessage, "kind">): Uint8Array {
  const { shape = [], meta } = message;
  const metaAt = MESSAGE_BYTES + shape.length * AXIS_BYTES;
  const head = new Uint8Array(metaAt + meta.byteLength);
  const view = new DataView(head.buffer);
  head[0] = MESSAGE;
  head[1] = (message.metaIsJson ? JSON_META : 0) | (message.shape === undefined ? 0 : SHAPED);
  head[2] = shape.length;
  setCount(view, 8, message.read);
  setCount(view, 16, message.sequence);
  setCount(view, 24, message.byteLength);
  setCount(view, 32, message.export ?? 0);
  for (const [axis, length] of shape.entries())
    setCount(view, MESSAGE_BYTES + axis * AXIS_BYTES, length);
  head.set(meta, metaAt);
  return head;
}

export function encodeMore({ read, count }: Omit<MoreMessages, "kind">): Uint8Array {
  const head = new Uint8Array(MORE_BYTES);
  const view = new DataView(head.buffer);
  head[0] = MORE;
  setCount(view, 8, read);
  setCount(view, 16, count);
  return head;
}

/** The meta is a view of `head`. @throws INVALID_MESSAGE */
export function decodeCarriedFrame(what: string, head: Uint8Array): CarriedFrame {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  return head[0] === MESSAGE ? decodeMessage(what, head, view) : decodeMore(what, view);
}

function decodeMessage(what: string, head: Uint8Array, view: DataView): CarriedMessage {
  const [, bits = 0, axes = 0, ...zeros] = head.subarray(0, 8);
  const metaAt = MESSAGE_BYTES + axes * AXIS_BYTES;
  const metaBytes = head.byteLength - metaAt;
  const isShaped = (bits & SHAPED) !== 0;
  if (bits > (JSON_META | SHAPED) || zeros.some((it) => it !== 0))
    throw invalid(what, "unknown flags");
  if (axes > (isShaped ? RANK_MAX : 0)) throw invalid(what, `${axes} axes`);
  if (metaBytes < 0 || metaBytes > limits.channelMetaBytesMax)
    throw invalid(what, `${head.byteLength} bytes`);
  const count = (at: number) => countAt(what, view, at);
  const from = count(32);
  return {
    kind: "message",
    read: count(8),
    sequence: count(16),
    byteLength: count(24),
    export: from === 0 ? undefined : from,
    shape: isShaped
      ? Array.from({ length: axes }, (_, axis) => count(MESSAGE_BYTES + axis * AXIS_BYTES))
      : undefined,
    meta: head.subarray(metaAt),
    metaIsJson: (bits & JSON_META) !== 0,
  };
}

function decodeMore(what: string, view: DataView): MoreMessages {
  if (view.byteLength !== MORE_BYTES) throw invalid(what, `${view.byteLength} bytes`);
  if (countAt(what, view, 0) !== MORE) throw invalid(what, "unknown flags");
  return { kind: "more", read: countAt(what, view, 8), count: countAt(what, view, 16) };
}

const LOW = 2 ** 32;

/** WHY two halves: a `bigint` for each would take longer than all the rest. */
function setCount(view: DataView, at: number, value: number): void {
  view.setUint32(at, value % LOW, true);
  view.setUint32(at + 4, Math.floor(value / LOW), true);
}

function countAt(what: string, view: DataView, at: number): number {
  const value = view.getUint32(at, true) + view.getUint32(at + 4, true) * LOW;
  if (Number.isSafeInteger(value)) return value;
  throw invalid(what, `a count of ${value}`);
}

function invalid(what: string, found: string): CudaIpcError {
  return new CudaIpcError("INVALID_MESSAGE", `Cannot read ${what}: it has ${found}`);
}
