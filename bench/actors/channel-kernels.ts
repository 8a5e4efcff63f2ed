// Kernels on both sides of a channel in device memory. The writer's kernel fills the slot with
// numbers from the message's number on (iota). The reader's kernel computes from the slot into its
// own memory (affine). The same loop in C: bench/c/channel-kernels.c
import { DeviceArray } from "../../src/gpu/arrays/device-array.js";
import { isFirst, total } from "./actor.js";
import { ChannelPair } from "./channel-side.js";
import { fillByStream, SLOT_BYTES, slots, takeByStream } from "./channel-streams.js";

const ELEMENTS = SLOT_BYTES / 4;
/** Message numbers wrap here, so that a float can hold them. */
const START_MAX = 4096;

const pair = await ChannelPair.connect();
const { device } = pair;
device.prepareOperations();
const stream = device.createStream();

if (isFirst) {
  const writer = await pair.create({ dtype: "float32", shape: [ELEMENTS], slots });
  const fill = (slot: DeviceArray<"float32">, i: number) => slot.iota(i % START_MAX, 1, { stream });
  await fillByStream("channel-kernels", { writer, stream, fill });
} else {
  const [reader] = await pair.open<"float32">({ stream });
  const own = DeviceArray.allocate(device, { dtype: "float32", shape: [ELEMENTS] });
  await takeByStream({ reader, stream, take: (from) => own.affine(2, 1, { from, stream }) });
  const last = await own.read();
  for (const [i, found] of last.entries()) {
    const wanted = (i + (total % START_MAX)) * 2 + 1;
    if (found !== wanted)
      throw new Error(`Element ${i} of the last message is ${found}, wanted ${wanted}`);
  }
}
await pair.end();
