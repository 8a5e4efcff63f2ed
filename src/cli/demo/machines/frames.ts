/** What the machines of the demo share: two arrays and a channel. */
import type { Hub } from "../../../client/hub.js";

/** Copied to the other machines. */
export const COPIED = "weights";
/** Announced, and not copied before its machine dies. */
export const UNCOPIED = "unseen";
export const CHANNEL = "frames";
export const FRAMES = 100;
/** 256 KiB, which travel in pieces. */
const FRAME_ELEMENTS_MAX = 65_536;

export function createFrames(hub: Hub, elements: number) {
  const shape = [Math.min(elements, FRAME_ELEMENTS_MAX)];
  return hub.createChannel(CHANNEL, { dtype: "float32", shape, slots: 8 });
}

/** The value of element i of a frame, exact in float32. */
export function frameValue(frame: number): (i: number) => number {
  return (i) => frame * FRAME_ELEMENTS_MAX + i;
}
