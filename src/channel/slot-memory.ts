/** The memory of a channel's slots: their bytes on the host device, their arrays on any device. */
import type { DType } from "../array/dtype.js";
import {
  type ArrayLayout,
  arrayByteLength,
  checkLayout,
  contiguousLayout,
  type LayoutFacts,
  layoutFacts,
} from "../array/layout.js";
import { checkInteger } from "../base/bytes.js";
import { DeviceArray } from "../gpu/arrays/device-array.js";
import type { DeviceBuffer } from "../gpu/memory/device-buffer.js";
import type { Lender } from "../gpu/memory/lender.js";
import { RANK_MAX } from "../ring/channel-layout.js";

export interface SlotShape<D extends DType = DType> {
  readonly dtype: D;
  /** The shape of a message that fills its slot. */
  readonly shape: readonly number[];
  readonly slotBytes: number;
  readonly slotStride: number;
}

/** The layout of a message that fills its slot. */
interface WholeSlot<D extends DType> {
  readonly layout: ArrayLayout & { readonly dtype: D };
  readonly facts: LayoutFacts;
}

/** For an array that its user closes. */
const ALWAYS_OPEN: Lender = { open: true, lend: () => {} };

export class SlotMemory<D extends DType = DType> {
  readonly buffer: DeviceBuffer;
  readonly facts: SlotShape<D>;
  readonly #views: (Uint8Array | undefined)[] = [];
  /** WHY kept: checking a layout takes longer than all the rest of such an array. */
  readonly #whole: (WholeSlot<D> | undefined)[] = [];

  /** Takes over the buffer. */
  constructor(buffer: DeviceBuffer, facts: SlotShape<D>) {
    this.buffer = buffer;
    this.facts = facts;
  }

  /** @throws UNSUPPORTED on a GPU */
  bytes(slot: number, byteLength: number): Uint8Array {
    const { slotBytes, slotStride } = this.facts;
    // WHY kept: a view costs more than all the rest of a small message.
    this.#views[slot] ??= this.buffer.view(slot * slotStride, slotBytes);
    const whole = this.#views[slot];
    return byteLength === slotBytes ? whole : whole.subarray(0, byteLength);
  }

  /**
   * Returns the ArrayBuffer of the slot's bytes, and keeps it no longer: it is collected when the
   * program has no view of it. Undefined if nobody has used them.
   */
  forgetBytes(slot: number): ArrayBufferLike | undefined {
    const view = this.#views[slot];
    this.#views[slot] = undefined;
    return view?.buffer;
  }

  /** An array over the slot. It closes with its message, and before this memory. */
  array(
    slot: number,
    shape: readonly number[] | undefined,
    message: Lender = ALWAYS_OPEN,
  ): DeviceArray<D> {
    const { dtype, slotStride } = this.facts;
    const buffer = this.buffer.borrow(message);
    const release = () => buffer.close();
    if (shape !== undefined) {
      return new DeviceArray(
        buffer,
        { ...contiguousLayout(dtype, shape, slot * slotStride), dtype },
        release,
      );
    }
    const { layout, facts } = this.#wholeSlot(slot);
    return new DeviceArray(buffer, layout, release, facts);
  }

  close(): void {
    // The views keep the memory mapped, and users may keep a closed channel for long.
    this.#views.length = 0;
    this.buffer.close();
  }

  #wholeSlot(slot: number): WholeSlot<D> {
    const known = this.#whole[slot];
    if (known !== undefined) return known;
    const { dtype, shape, slotStride } = this.facts;
    // All messages in this slot share it.
    const layout = Object.freeze({
      ...contiguousLayout(dtype, Object.freeze([...shape]), slot * slotStride),
      dtype,
    });
    Object.freeze(layout.strides);
    checkLayout(layout, this.buffer.byteLength);
    const whole = { layout, facts: layoutFacts(layout) };
    this.#whole[slot] = whole;
    return whole;
  }
}

/**
 * The shape of a message of so many bytes: undefined if it fills its slot, elements in a row if it
 * has no shape of its own, "contradiction" if its shape has other bytes.
 */
export function shapeOfMessage(
  { dtype, slotBytes }: SlotShape,
  byteLength: number,
  shape: readonly number[] | undefined,
): readonly number[] | undefined | "contradiction" {
  if (shape === undefined) {
    if (byteLength === slotBytes) return undefined;
    const elementBytes = arrayByteLength(dtype, []);
    return byteLength % elementBytes === 0 ? [byteLength / elementBytes] : "contradiction";
  }
  // WHY an axis of 0 counts as 1 at first: strides are products of axes, and must be exact, too.
  const part = shape.reduce(
    (product, length) => product * Math.max(1, length),
    arrayByteLength(dtype, []),
  );
  if (!Number.isSafeInteger(part) || !shape.every(Number.isSafeInteger)) return "contradiction";
  return (shape.includes(0) ? 0 : part) === byteLength ? shape : "contradiction";
}

export interface MessageSize {
  readonly byteLength: number;
  /** Set if the message has a shape of its own. */
  readonly shape?: readonly number[] | undefined;
}

/**
 * The size of a message as its writer gives it; the whole slot if it gives none.
 * @throws RangeError
 */
export function sizeOfMessage(
  label: string,
  facts: SlotShape,
  {
    byteLength,
    shape,
  }: { readonly byteLength?: number | undefined; readonly shape?: readonly number[] | undefined },
): MessageSize {
  const { slotBytes, dtype } = facts;
  if (shape === undefined && byteLength === undefined)
    return { byteLength: slotBytes, shape: undefined };
  if (shape !== undefined) checkInteger("axes of a message", shape.length, 0, RANK_MAX);
  const found = shape === undefined ? (byteLength as number) : arrayByteLength(dtype, shape);
  checkInteger(`byteLength of a message of channel "${label}"`, found, 0, slotBytes);
  if ((byteLength ?? found) !== found || shapeOfMessage(facts, found, shape) === "contradiction") {
    throw new RangeError(
      `A message of channel "${label}" cannot be ${byteLength} bytes of ` +
        `${dtype}[${shape?.join(", ") ?? ""}]`,
    );
  }
  return { byteLength: found, shape };
}
