// Kernels on both sides of a channel in the memory of a device: the writer's counts up from the message's number in the slot (iota), the
// reader's computes from the slot into memory of its own (affine). The same loop: bench/c/channel-kernels.c
import { DeviceArray } from "../../src/gpu/device-array.js";
import { isFirst, total } from "./actor.js";
import { ChannelPair } from "./channel-side.js";
import { fillByStream, SLOT_BYTES, slots, takeByStream } from "./channel-streams.js";

const ELEMENTS = SLOT_BYTES / 4;
/** Message numbers begin again here, so that a float counts all of them. */
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
    if (found !== wanted) throw new Error(`Element ${i} of the last message is ${found}, wanted ${wanted}`);
  }
}
await pair.end();
