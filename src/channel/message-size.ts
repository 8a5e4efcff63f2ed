/** How large a message is that does not fill its slot, as its writer says, checked. */
import { arrayByteLength } from "../array/layout.js";
import { checkInteger } from "../base/bytes.js";
import { RANK_MAX } from "../ring/channel-layout.js";
import { type SlotShape, shapeOfMessage } from "./slot-memory.js";

export interface MessageSize {
  readonly byteLength: number;
  /** Where the message has a shape of its own. */
  readonly shape: readonly number[] | undefined;
}

/** @throws RangeError */
export function sizeOfMessage(
  label: string,
  facts: SlotShape,
  { byteLength, shape }: { readonly byteLength?: number | undefined; readonly shape?: readonly number[] | undefined },
): MessageSize {
  const { slotBytes, dtype } = facts;
  if (shape === undefined && byteLength === undefined) return { byteLength: slotBytes, shape: undefined };
  if (shape !== undefined) checkInteger("axes of a message", shape.length, 0, RANK_MAX);
  const found = shape === undefined ? (byteLength as number) : arrayByteLength(dtype, shape);
  checkInteger(`byteLength of a message of channel "${label}"`, found, 0, slotBytes);
  if ((byteLength ?? found) !== found || shapeOfMessage(facts, found, shape) === "contradiction") {
    throw new RangeError(
      `A message of channel "${label}" cannot be ${byteLength} bytes of ${dtype}[${shape?.join(", ") ?? ""}]`,
    );
  }
  return { byteLength: found, shape };
}
