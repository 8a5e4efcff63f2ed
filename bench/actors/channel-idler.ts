// Writers or readers of channels on which nothing happens; told what to do by bench/channel/idle.ts.
import { type ChannelWriter, connect } from "../../src/index.js";
import { serve } from "../hub/helper-side.js";

const writers: ChannelWriter[] = [];
let received = 0;

async function connected(socket: string) {
  return await connect({ socket, device: "host", start: false });
}

serve({
  async write({ socket, channels }: { socket: string; channels: number }) {
    const hub = await connected(socket);
    for (let index = 0; index < channels; index += 1) {
      writers.push(await hub.createChannel(`idle-${index}`, { byteLength: 64 }));
    }
  },

  async read({ socket, channels }: { socket: string; channels: number }) {
    const hub = await connected(socket);
    for (let index = 0; index < channels; index += 1) {
      const reader = await hub.openChannel(`idle-${index}`, { wait: false });
      void (async () => {
        for (;;) {
          using slot = await reader.next();
          if (slot === undefined) return;
          received += 1;
        }
      })();
    }
  },

  /** One message through each, which shows that they were not dead but idle. */
  send() {
    for (const writer of writers) writer.tryLoan()?.commit();
  },

  received: () => received,
});
