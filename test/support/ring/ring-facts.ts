/** The default ring of a test. */
import type { ChannelFacts } from "../../../src/ring/channel-layout.js";

export function ringFacts(options: Partial<ChannelFacts> = {}): ChannelFacts {
  return {
    slots: 4,
    readersMax: 3,
    slotBytes: 64,
    slotStride: 64,
    metaBytesMax: 32,
    whenFull: "wait",
    whenWriterGone: "wait",
    firstPosition: 0,
    ...options,
  };
}
