/**
 * A service of the soak, private to its user. Each process that works for one is its only worker,
 * but another user may offer itself as one, too.
 */
import { connectService, serve } from "../../src/doors/service.js";
import type { Visit } from "./visit.js";

const MESSAGE = { dtype: "float64", shape: [1] } as const;

/** Works for the service of this process, and sends requests to it at each look. */
export async function work(visit: Visit): Promise<void> {
  const { hub, random, tally, service: name } = visit;
  const worker = await tally.attempt("serve", [], () =>
    serve(hub, name, { request: MESSAGE, reply: MESSAGE }, async (request, reply) => {
      const [value = 0] = await request.array.read();
      await (await reply.loan()).array.write(Float64Array.of(2 * value));
      return { meta: { pid: process.pid } };
    }),
  );
  if (worker === undefined) return;
  const client = connectService(hub, name);
  const ask = async () => {
    const value = random.below(2 ** 32);
    const send = () => client.request((slot) => slot.array.write(Float64Array.of(value) as never));
    using reply = await tally.attempt("request", [], send);
    if (reply === undefined) return undefined;
    const [found] = await reply.array.read();
    if (found !== 2 * value) return `twice ${value} is ${found}`;
    const { pid } = reply.json as { readonly pid?: number };
    return pid === process.pid ? undefined : `process ${pid} has answered`;
  };
  const held = {
    name,
    look: ask,
    close: async () => {
      await client.close();
      await worker.close();
    },
  };
  await visit.look(held);
  await visit.keep(held);
}
