// Writers or readers of idle channels. bench/channel/idle.ts gives the orders.
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

  /** Sends one message through each, to show that they were alive. */
  send() {
    for (const writer of writers) writer.tryLoan()?.commit();
  },

  received: () => received,
});
