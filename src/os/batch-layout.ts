/**
 * The packets of fd-batches.ts, little-endian:
 *
 *   ITEM   1 0:1   byteLength 1:4   fdCount 5:4   the first bytes 9:, with the first descriptors
 *   MORE   2 0:1   further bytes 1:, with further descriptors
 *   ASK    3 0:1   answered by ACK
 *   END    4 0:1   nothing follows; answered by ACK
 *   ACK    5 0:1   all that was sent before the question was received
 */
import { limits } from "../base/limits.js";
import type { OwnedFd } from "./owned-fd.js";

/** Bytes and the descriptors that they speak of. */
export interface BatchItem {
  readonly bytes: Uint8Array;
  readonly fds: readonly OwnedFd[];
}

export const ITEM_HEADER_BYTES = 9;
export const MORE_HEADER_BYTES = 1;
const KINDS = ["item", "more", "ask", "end", "ack"] as const;
export const ASK = Uint8Array.of(3);
export const END = Uint8Array.of(4);
export const ACK = Uint8Array.of(5);

/** Undefined for what is none of these packets. */
export function kindOf(packet: Uint8Array): (typeof KINDS)[number] | undefined {
  const kind = KINDS[(packet[0] ?? 0) - 1];
  const isWhole = kind === "item" ? packet.byteLength >= ITEM_HEADER_BYTES : kind === "more" || packet.byteLength === 1;
  return isWhole ? kind : undefined;
}

export function itemHeader(packet: Uint8Array): { readonly byteLength: number; readonly fdCount: number } {
  const view = new DataView(packet.buffer, packet.byteOffset, packet.byteLength);
  return { byteLength: view.getUint32(1, true), fdCount: view.getUint32(5, true) };
}

/** An item as packets, each of which one message of the socket can take. */
export function* itemPackets(item: BatchItem): Generator<BatchItem> {
  const { bytes, fds } = item;
  if (bytes.byteLength > limits.batchBytesMax) {
    throw new RangeError(`An item takes ${limits.batchBytesMax} bytes, not ${bytes.byteLength}`);
  }
  let header = new Uint8Array(ITEM_HEADER_BYTES);
  header[0] = 1;
  new DataView(header.buffer).setUint32(1, bytes.byteLength, true);
  new DataView(header.buffer).setUint32(5, fds.length, true);
  let byteAt = 0;
  let fdAt = 0;
  do {
    const byteEnd = byteAt + limits.messageBytesMax - header.byteLength;
    const fdEnd = fdAt + limits.scmRightsFdsMax;
    yield { bytes: Buffer.concat([header, bytes.subarray(byteAt, byteEnd)]), fds: fds.slice(fdAt, fdEnd) };
    header = Uint8Array.of(2);
    byteAt = byteEnd;
    fdAt = fdEnd;
  } while (byteAt < bytes.byteLength || fdAt < fds.length);
}
