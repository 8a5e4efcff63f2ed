// Copies through a channel in device memory, ordered by two streams: 64 KiB from the writer's
// memory into the slot, and from the slot into the reader's memory. A sample is the mean of CHUNK
// messages, at the writer. The same loop in C: bench/c/channel-copies.c
import { DeviceArray } from "../../src/gpu/arrays/device-array.js";
import { isFirst } from "./actor.js";
import { ChannelPair } from "./channel-side.js";
import { fillByStream, SLOT_BYTES, slots, takeByStream } from "./channel-streams.js";

const pair = await ChannelPair.connect();
const { device } = pair;
const stream = device.createStream();
const own = DeviceArray.allocate(device, { dtype: "uint32", shape: [SLOT_BYTES / 4] });
const pattern = Uint32Array.from({ length: SLOT_BYTES / 4 }, (_, i) => Math.imul(i, 2654435761));

if (isFirst) {
  await own.write(pattern);
  const writer = await pair.create({ dtype: "uint32", shape: [SLOT_BYTES / 4], slots });
  await fillByStream("channel-copies", {
    writer,
    stream,
    fill: (slot) => slot.copyFrom(own, { stream }),
  });
} else {
  const [reader] = await pair.open<"uint32">({ stream });
  await takeByStream({ reader, stream, take: (slot) => own.copyFrom(slot, { stream }) });
  const last = await own.read();
  for (const [i, word] of pattern.entries()) {
    if (last[i] !== word) throw new Error(`Word ${i} of the last message is ${last[i]}`);
  }
}
await pair.end();
