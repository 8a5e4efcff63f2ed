/**
 * System S7, last exercise: a service whose workers run under a supervisor survives their deaths.
 * Each worker opens the model by name, so a restarted worker has it at once. A worker ends with an
 * error if its GPU is lost: under MPS, one worker that is killed while its kernel runs takes the
 * GPU away from all others. Requests of a dead worker go to the next one. The front uses only host
 * memory, so it cannot lose a GPU.
 *
 *   npx cuda-ipc demo supervised-workers   with the package installed
 *   node examples/supervised-workers.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 16384 --processes 2 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4712  loader: "supervised-model" is float32[16384] on cuda:0, pinned: it outlives the loader
 *   4711  20 of 60 requests are answered: kills worker 4713 at work by SIGKILL
 *   4711  worker 4713 ended with SIGKILL: the next one starts in 50 ms
 *   4711  worker 4715 serves in its place
 *   4711  60 requests were answered correctly by 3 workers, 1 of them after a worker's death
 */
import { CudaIpcError, connect, DeviceArray, type Hub } from "cuda-ipc";
import { connectService, type ServiceClient, serve } from "cuda-ipc/service";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, run, say, verify } from "./program.ts";
import { Supervisor } from "./supervisor.ts";

const [MODEL, SERVICE, REQUESTS, AT_A_TIME, PASSES] = [
  "supervised-model",
  "supervised",
  60,
  8,
  64,
] as const;
const NUMBERS = { dtype: "float32", shape: [2] } as const;

const roles: Readonly<Record<string, (options: Options) => Promise<void>>> = {
  parent: front,
  loader,
  worker,
};
await run({ elements: 16_384, processes: 2 }, (options) => (roles[options.role] ?? front)(options));

async function front(options: Options): Promise<void> {
  await using hub = await connect({ device: "host", hubIdleMs: 500, ...LIMIT });
  using loading = new Child(import.meta.url, "loader", options);
  await loading.finished();
  const supervisor = new Supervisor(() => new Child(import.meta.url, "worker", options));
  const keeping = Array.from({ length: options.processes }, () => supervisor.keepOne());
  {
    await using client = connectService(hub, SERVICE, { policy: "retry", retriesMax: 10 });
    await sendAll(client, supervisor, Math.min(96, options.elements - 1));
  }
  supervisor.end();
  await Promise.all(keeping);
  await hub.remove(MODEL);
}

async function sendAll(
  client: ServiceClient,
  supervisor: Supervisor,
  largest: number,
): Promise<void> {
  const by = new Map<number, number>();
  let [next, answered] = [0, 0];
  const sendOn = async () => {
    while (next < REQUESTS) {
      next += 1;
      const factor = next;
      using reply = await client.request((slot) => slot.array.write([factor, 0]), LIMIT);
      verify(
        `reply ${factor}`,
        await reply.array.expectDType("float32").read(),
        (i) => i * largest * factor + PASSES,
      );
      const { worker } = reply.json as { readonly worker: number };
      by.set(worker, (by.get(worker) ?? 0) + 1);
      answered += 1;
      if (answered === REQUESTS / 3)
        supervisor.killOne(`${answered} of ${REQUESTS} requests are answered`);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, sendOn));
  // The last request may be answered before the new worker is ready.
  await supervisor.replaced;
  const retried = `${client.retried} of them after a worker's death`;
  say(`${REQUESTS} requests were answered correctly by ${by.size} workers, ${retried}`);
}

async function loader(options: Options): Promise<void> {
  await using hub = await join(options);
  // A device that lacks what the workers compute with says so here. They would be restarted.
  hub.device().prepareOperations();
  using model = await hub.create(MODEL, {
    dtype: "float32",
    shape: [options.elements],
    lifetime: "pinned",
  });
  await model.write(Float32Array.from({ length: options.elements }, (_, i) => i % 97));
  await model.publish();
  const what = `"${MODEL}" is float32[${options.elements}] on ${model.device.name}`;
  say(`loader: ${what}, pinned: it outlives the loader`);
}

async function worker(options: Options): Promise<void> {
  await using hub = await join(options);
  const device = hub.device();
  // A worker without its GPU must end with an error, so that its supervisor restarts it.
  device.onLost((error) => {
    say(`worker: ${error instanceof CudaIpcError ? error.code : error.name}: ends to be restarted`);
    process.exit(1);
  });
  using model = (await hub.open(MODEL, LIMIT)).expectDType("float32");
  using scratch = DeviceArray.allocate(device, { dtype: "float32", shape: model.shape });
  using stream = device.createStream();
  const shapes = { request: NUMBERS, reply: NUMBERS, device: "host" } as const;
  await using _service = await serve(hub, SERVICE, shapes, async (request, reply) => {
    const [factor = 0] = await request.array.expectDType("float32").read();
    await scratch.affine(factor, 0, { from: model, stream });
    for (let pass = 0; pass < PASSES; pass += 1) await scratch.affine(1, 1, { stream });
    const { min, max } = await scratch.statistics({ stream });
    await (await reply.loan()).array.write([Number(min), Number(max)]);
    return { meta: { worker: process.pid } };
  });
  tellParent("serves");
  await heard();
}

function join({ device }: Options): Promise<Hub> {
  return connect({ device, hubIdleMs: 500, ...LIMIT });
}
