// A worker or a client of a service: `service.mjs SOCKET COMMAND NAME [JSON]`.
import { connectService, serve } from "../../../build/src/bundled/doors/service.js";
import { args, heard, hub, LIMIT, say } from "./common.mjs";

const [command, name, json = "{}"] = args;
const options = JSON.parse(json);
const message = { dtype: "float32", shape: [4] };

const commands = {
  /** Doubles what it gets, until it is told to end. Says each request that it begins. */
  async worker() {
    const service = await serve(
      hub,
      name,
      { request: message, reply: message, ...options.serve },
      async (request, reply) => {
        say({ begun: request.json ?? null });
        if (request.json?.never) {
          await new Promise((_, reject) => {
            request.signal.addEventListener("abort", () => reject(request.signal.reason));
          }).catch((reason) => say({ ended: reason.code }));
          return undefined;
        }
        if (request.json?.fail) throw new RangeError("no such thing");
        const values = await request.array.read();
        await (await reply.loan()).array.write(values.map((value) => 2 * value));
        return { meta: { by: "node" } };
      },
    );
    say("serving");
    await heard();
    await service.close();
  },
  /** Sends each request that it hears, and says the reply or the error. */
  async client() {
    const client = connectService(hub, name, options.connect);
    say("ready");
    for (let asked = await heard(); asked !== undefined; asked = await heard()) {
      const { values, meta, timeoutMs = LIMIT.timeoutMs } = asked;
      const fill =
        values === undefined ? undefined : (slot) => slot.array.write(new Float32Array(values));
      try {
        const reply = await client.request(fill, { meta, timeoutMs });
        const got = reply.byteLength === 0 ? [] : [...(await reply.array.read())];
        say({ values: got, meta: reply.json ?? null });
        reply.release();
      } catch (error) {
        say({ code: error.code, message: error.message });
      }
    }
    await client.close();
  },
};

await commands[command]();
await hub.close();
