/** A worker process: serves requests until it is told to end, or its parent has ended. */
import { parseArgs } from "node:util";
import { CudaIpcError, connect, DeviceArray } from "cuda-ipc";
import { serve } from "cuda-ipc/service";
import { classify, IMAGE, openModel, SCORES } from "./model.ts";

const { values } = parseArgs({
  options: {
    service: { type: "string", default: "classify" },
    model: { type: "string", default: "model" },
    device: { type: "string" },
  },
});

process.on("disconnect", () => process.exit());
const told = new Promise((resolve) => process.once("message", resolve).once("SIGTERM", resolve));
try {
  await work(values.service, values.model);
  process.disconnect?.();
} catch (error) {
  if (!(error instanceof CudaIpcError) || process.send === undefined) throw error;
  const { code, message } = error;
  process.send({ code, message }, () => process.exit(1));
}

async function work(name: string, model: string): Promise<void> {
  await using hub = await connect({ device: values.device, hubIdleMs: 500 });
  // Maps the one copy of the weights, for reading. So a new worker has them at once.
  using weights = await openModel(hub, model);
  // A first image, so that a device without kernels is found before clients send theirs.
  using image = DeviceArray.allocate(hub.device(), IMAGE);
  await image.fill(0);
  await classify(image, weights);
  const options = { request: IMAGE, reply: SCORES, depth: 4 } as const;
  // Closing it finishes the current requests. Other workers get the rest.
  await using _service = await serve(hub, name, options, async (request, reply) => {
    const scores = await classify(request.array, weights);
    await (await reply.loan()).array.write(scores);
    return { meta: { worker: process.pid } };
  });
  process.send?.("ready");
  await told;
}
