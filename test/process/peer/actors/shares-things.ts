// Shares a pool buffer (float32 `i + 100`), growing memory (int32), an array by handle, an event
// and a timeline in one message. Then obeys one command a line: `grow`, `record` or `signal`.
// Reports each one when it is done.
import { GrowingBuffer, IpcArrayHandle, MemoryPool } from "../../../../src/doors/interop.js";
import { share } from "../../../../src/doors/peer.js";
import { Device, DeviceArray } from "../../../../src/index.js";
import { argument, say, told } from "../../../support/actor-side.js";

using device = Device.open("host");
using pool = MemoryPool.create(device, { maxBytes: 1 << 20, shared: true });
using pooled = pool.allocateArray({ dtype: "float32", shape: [1000] });
await pooled.write(Float32Array.from({ length: 1000 }, (_, i) => i + 100));
using growing = GrowingBuffer.create(device, { byteLength: 4096, maxByteLength: 1 << 20 });
await growing.buffer.fill(0, { elementBytes: 1, value: 1 }, 4096);
using legacy = DeviceArray.allocate(device, { dtype: "int16", shape: [8], mechanism: "legacy" });
await legacy.write([1, 2, 3, 4, 5, 6, 7, 8]);
using event = device.createEvent();
using timeline = device.createTimeline();
using stream = device.createStream();
const documents = {
  pooled: share(pooled),
  growing: share(growing),
  legacy: IpcArrayHandle.of(legacy.slice({ start: 2, stop: 5 })),
  event: share(event),
  timeline: share(timeline),
};
say(documents);
for (const step of JSON.parse(argument(0)) as string[]) {
  await told();
  if (step === "grow") {
    growing.grow(100_000);
    await growing.buffer.fill(4096, { elementBytes: 1, value: 2 }, 100_000 - 4096);
    say("grown");
  }
  if (step === "record") {
    event.record(stream);
    say(event.export());
  }
  if (step === "signal") {
    timeline.signal(timeline.value + 1n);
    say("signalled");
  }
}
await told();
for (const shared of [documents.pooled, documents.growing, documents.event, documents.timeline])
  shared.close();
