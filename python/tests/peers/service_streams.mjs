// A worker or a client whose work is done by streams: `service_streams.mjs SOCKET COMMAND NAME`.
import { connectService, serve } from "../../../build/src/bundled/doors/service.js";
import { connect, DeviceArray } from "../../../build/src/bundled/index.js";
import { args, heard, LIMIT, hub as plain, say, socket } from "./common.mjs";

const [command, name] = args;
const SIZE = 4096;
const message = { dtype: "uint8", shape: [SIZE] };
const hub = await connect({ socket, device: "cuda:0", start: false });
const stream = hub.device().createStream();

const commands = {
  /** Copies each request to its reply, until it is told to end. */
  async worker() {
    const options = { request: message, reply: message, stream, depth: 2 };
    const service = await serve(hub, name, options, async (request, reply) => {
      await (await reply.loan()).array.copyFrom(request.array, { stream });
      return { meta: { by: "node" } };
    });
    say("serving");
    await heard();
    await service.close();
  },
  /** Asks 40 times, with 4 requests in flight, and says how many replies were wrong. */
  async client() {
    const client = connectService(hub, name, { stream });
    const replies = DeviceArray.allocate(hub.device(), { dtype: "uint8", shape: [40, SIZE] });
    say("ready");
    await heard();
    for (let first = 0; first < 40; first += 4) {
      const four = [0, 1, 2, 3].map(async (more) => {
        const fill = (slot) => slot.array.fill(first + more, { stream });
        const reply = await client.request(fill, LIMIT);
        await replies.slice(first + more).copyFrom(reply.array, { stream });
        reply.release();
      });
      await Promise.all(four);
    }
    await stream.synchronize(LIMIT);
    const values = await replies.read();
    say({ wrong: values.filter((value, at) => value !== Math.floor(at / SIZE)).length });
    replies.close();
    await heard();
    await client.close();
  },
};

await commands[command]();
stream.close();
await hub.close();
await plain.close();
