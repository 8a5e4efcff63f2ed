/** The data of a channel's slots, and what a message in one of them looks like: its bytes on the host device, its array anywhere. */
import type { DType } from "../array/dtype.js";
import {
  type ArrayLayout,
  arrayByteLength,
  checkLayout,
  contiguousLayout,
  type LayoutFacts,
  layoutFacts,
} from "../array/layout.js";
import { DeviceArray } from "../gpu/device-array.js";
import type { DeviceBuffer } from "../gpu/device-buffer.js";

export interface SlotShape<D extends DType = DType> {
  readonly dtype: D;
  /** Of a message that fills its slot. */
  readonly shape: readonly number[];
  readonly slotBytes: number;
  readonly slotStride: number;
}

/** Of a message that fills its slot. */
interface WholeSlot<D extends DType> {
  readonly layout: ArrayLayout & { readonly dtype: D };
  readonly facts: LayoutFacts;
}

export class SlotMemory<D extends DType = DType> {
  readonly buffer: DeviceBuffer;
  readonly facts: SlotShape<D>;
  readonly #views: (Uint8Array | undefined)[] = [];
  /** WHY kept: to find a layout in order takes longer than everything else about such an array. */
  readonly #whole: (WholeSlot<D> | undefined)[] = [];

  /** Takes over the buffer. */
  constructor(buffer: DeviceBuffer, facts: SlotShape<D>) {
    this.buffer = buffer;
    this.facts = facts;
  }

  /** @throws UNSUPPORTED on a GPU */
  bytes(slot: number, byteLength: number): Uint8Array {
    const { slotBytes, slotStride } = this.facts;
    // WHY kept: a view costs more than everything else about a small message.
    this.#views[slot] ??= this.buffer.view(slot * slotStride, slotBytes);
    const whole = this.#views[slot];
    return byteLength === slotBytes ? whole : whole.subarray(0, byteLength);
  }

  /** An array over the slot, which is closed with the message, and before this memory. */
  array(slot: number, shape: readonly number[] | undefined): DeviceArray<D> {
    const { dtype, slotStride } = this.facts;
    const buffer = this.buffer.borrow();
    const release = () => buffer.close();
    if (shape !== undefined) {
      return new DeviceArray(buffer, { ...contiguousLayout(dtype, shape, slot * slotStride), dtype }, release);
    }
    const { layout, facts } = this.#wholeSlot(slot);
    return new DeviceArray(buffer, layout, release, facts);
  }

  close(): void {
    // WHY: the views keep the memory mapped, and whoever has closed a channel may keep the object for long.
    this.#views.length = 0;
    this.buffer.close();
  }

  #wholeSlot(slot: number): WholeSlot<D> {
    const known = this.#whole[slot];
    if (known !== undefined) return known;
    const { dtype, shape, slotStride } = this.facts;
    // WHY frozen: all messages in this slot have it.
    const layout = Object.freeze({ ...contiguousLayout(dtype, Object.freeze([...shape]), slot * slotStride), dtype });
    Object.freeze(layout.strides);
    checkLayout(layout, this.buffer.byteLength);
    const whole = { layout, facts: layoutFacts(layout) };
    this.#whole[slot] = whole;
    return whole;
  }
}

/**
 * The shape of a message of so many bytes: undefined where it fills its slot as the channel says, elements in a row where it says no shape
 * of its own; "contradiction" where its shape has other bytes.
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
  if (!shape.every(Number.isSafeInteger)) return "contradiction";
  const found = shape.reduce((product, length) => product * length, arrayByteLength(dtype, []));
  return found === byteLength ? shape : "contradiction";
}
