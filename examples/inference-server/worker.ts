/** A worker process: serves requests for the model until it is told to end, or whoever started it has ended. */
import { parseArgs } from "node:util";
import { connect, serve } from "cuda-ipc";
import { classify, IMAGE, SCORES } from "./model.ts";

const { values } = parseArgs({ options: { service: { type: "string" }, device: { type: "string" } } });

process.on("disconnect", () => process.exit());
const told = new Promise((resolve) => process.once("message", resolve).once("SIGTERM", resolve));
await work(values.service ?? "classify");
process.disconnect?.();

async function work(name: string): Promise<void> {
  await using hub = await connect({ device: values.device, hubIdleMs: 500 });
  const options = { request: IMAGE, reply: SCORES, depth: 4 } as const;
  // Closed at the end, it finishes what it has begun, and leaves the rest to others.
  await using _service = await serve(hub, name, options, async (request, reply) => {
    const scores = await classify(request.array);
    await (await reply.loan()).array.write(scores);
    return { meta: { worker: process.pid } };
  });
  process.send?.("ready");
  await told;
}
