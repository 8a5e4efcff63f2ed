// Creates or resumes a channel and writes messages whose words are all their number. Commands:
// "send N", "flood" until it is killed, "end", "leave". Arguments: socket, name, "create" or
// "resume", options as JSON.
import type { ChannelWriter } from "../../../../src/channel/channel-writer.js";
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [socket, name, how, options] = [0, 1, 2, 3].map(argument) as [string, string, string, string];
await using hub = await connect({ socket, start: false, device: "host" });
const writer: ChannelWriter =
  how === "create"
    ? await hub.createChannel(name, {
        dtype: "uint32",
        shape: [64],
        ...(JSON.parse(options) as object),
      })
    : await hub.resumeChannel(name);
say({ committed: writer.committed });

async function send(): Promise<void> {
  using slot = await writer.loan();
  const { bytes } = slot;
  new Uint32Array(bytes.buffer, bytes.byteOffset, 64).fill(writer.committed);
  slot.commit();
}

for (let command = await told(); command !== "leave"; command = await told()) {
  if (command === "end") {
    writer.end();
    say("ended");
  }
  if (command === "flood") {
    for (;;) {
      await send();
      // Pauses now and then, like a writer that has other work.
      if (writer.committed % 16 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  }
  const count = Number(command.replace("send ", ""));
  for (let sent = 0; sent < count; sent += 1) await send();
  if (count > 0) say({ committed: writer.committed, dropped: writer.dropped });
}
