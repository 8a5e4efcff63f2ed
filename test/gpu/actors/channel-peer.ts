// One side of a channel on a GPU, ordered by its own stream. Every word of a message is its number.
// Arguments: socket, device, what to do:
//   writes N   creates "channel", commits N messages by its stream, and ends it once they are done
//   stuck N    commits N messages that are done and one that never will be, prints that, and stays
//   holds N    reads N messages by a stream that never gives them back, prints that, and stays
import { connect } from "../../../src/client/connect.js";
import { argument, say, told } from "../../support/actor-side.js";

const ELEMENTS = 16_384;
const LATE = { timeoutMs: 60_000 };
const [socket, device, task, count] = [argument(0), argument(1), argument(2), Number(argument(3))];
await using hub = await connect({ socket, start: false, device });
const stream = hub.device().createStream();
const gate = hub.device().createTimeline();

if (task === "holds") {
  const reader = await hub.openChannel("channel", { from: "oldest", stream });
  stream.wait(gate, 1);
  for (let read = 0; read < count; read += 1) (await reader.next(LATE))?.release();
  say("holds");
  await told();
} else {
  const writer = await hub.createChannel("channel", {
    dtype: "uint32",
    shape: [ELEMENTS],
    slots: 8,
    readersMax: 4,
  });
  say("created");
  await told();
  const send = async () => {
    using slot = await writer.loan({ stream, ...LATE });
    const { committed: value } = writer;
    slot.array.buffer.enqueue("write", stream, (mapped) => {
      const pointer = mapped.pointerAt(slot.array.layout.byteOffset);
      stream.device.driver.fill(stream.handle, pointer, { elementBytes: 4, value }, ELEMENTS);
    });
    slot.commit();
  };
  for (let sent = 0; sent < count; sent += 1) await send();
  await stream.synchronize(LATE);
  if (task === "stuck") {
    stream.wait(gate, 1);
    await send();
    say("stuck");
    await told();
  }
  writer.close();
}
await stream.synchronize(LATE);
stream.close();
