/** The owner of memory that is borrowed for a while, such as a message and its slot. */
import type { Stream } from "../order/stream.js";

export interface Lender {
  readonly open: boolean;
  /**
   * The memory may be in use while nothing of it is reachable: by somebody who has its address, or
   * by the work of a stream.
   */
  lend(stream?: Stream): void;
}

const lenders = new WeakMap<ArrayBufferLike, Lender>();

/** Returns the view, which keeps its lender reachable from here on. */
export function viewOf(lender: Lender | undefined, view: Uint8Array): Uint8Array {
  if (lender !== undefined) lenders.set(view.buffer, lender);
  return view;
}
