/** What makes no sense in a header that another process wrote. */
import { type ChannelFacts, flags } from "./channel-layout.js";
import type { MessageHeader } from "./control-words.js";

const KNOWN_FLAGS = flags.json | flags.shaped | flags.lost;

/** Undefined where it is sound. */
export function contradictionOf(
  { byteLength, metaBytes, sequence, readyAt, flags: found }: MessageHeader,
  { slotBytes, metaBytesMax }: ChannelFacts,
  position: number,
): string | undefined {
  const wrong =
    byteLength > slotBytes ||
    metaBytes > metaBytesMax ||
    !Number.isSafeInteger(sequence) ||
    readyAt > position + 1 ||
    (found & ~KNOWN_FLAGS) !== 0;
  if (!wrong) return undefined;
  return `message ${sequence} of ${byteLength} bytes, ready at ${readyAt}, with ${metaBytes} of meta and flags ${found}`;
}
