/**
 * A service of supervised workers, as in examples/supervised-workers.ts. One worker is killed while
 * its kernel certainly runs: the kernel takes seconds, and the worker has reported its launch. It
 * takes the options of the examples.
 */
import { once } from "node:events";
import { connect, DeviceArray } from "cuda-ipc";
import { arg, Module } from "cuda-ipc/kernels";
import { connectService, serve } from "cuda-ipc/service";
import { Child, heard, tellParent } from "../../../examples/child.js";
import { LIMIT, type Options, run, say, verify } from "../../../examples/program.js";
import { Supervisor } from "../../../examples/supervisor.js";
import { COUNT_KERNEL } from "./count-kernel.js";

/** Much longer than an MPS server needs to notice that a client has ended. */
const LONG_MS = 3000;
const [SERVICE, REQUESTS, AT_A_TIME, EXIT_LOST] = ["kernels", 12, 4, 75] as const;
const NUMBERS = { dtype: "float32", shape: [2] } as const;

await run({ processes: 3 }, (options) =>
  options.role === "worker" ? worker(options) : front(options),
);

async function front(options: Options): Promise<void> {
  await using hub = await connect({ device: "host", hubIdleMs: 500, ...LIMIT });
  const first: Child[] = [];
  const supervisor = new Supervisor(() => {
    const child = new Child(import.meta.url, "worker", options);
    if (first.length < options.processes) first.push(child);
    return child;
  });
  const keeping = Array.from({ length: options.processes }, () => supervisor.keepOne());
  const exited = first.map(({ process }) => once(process, "exit"));
  // WHY all: a call that loads code may wait for a running kernel.
  await Promise.all(first.map(({ process }) => once(process, "message")));
  let isKilled = false;
  for (const { process } of first) {
    process.once("message", () => {
      if (!isKilled) isKilled = process.kill("SIGKILL");
    });
  }
  {
    await using client = connectService(hub, SERVICE, { policy: "retry", retriesMax: 10 });
    let next = 0;
    const sendOn = async () => {
      while (next < REQUESTS) {
        next += 1;
        const numbers = [next, next === 1 ? LONG_MS : 1];
        using reply = await client.request((slot) => slot.array.write(numbers), LIMIT);
        verify(
          `reply ${numbers[0]}`,
          await reply.array.expectDType("float32").read(),
          (i) => numbers[i] as number,
        );
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, sendOn));
    say(
      `${REQUESTS} requests were answered rightly, of them after another worker's end: ${client.retried}`,
    );
  }
  await Promise.all(exited);
  const ended = first.map(({ process }) => process.signalCode ?? process.exitCode);
  const count = (end: string | number) => ended.filter((it) => it === end).length;
  say(
    `of ${first.length} workers ${count("SIGKILL")} was killed and ${count(EXIT_LOST)} lost their device`,
  );
  supervisor.end();
  await Promise.all(keeping);
}

async function worker({ device: name }: Options): Promise<void> {
  await using hub = await connect({ device: name, hubIdleMs: 500, ...LIMIT });
  const device = hub.device();
  device.onLost(() => process.exit(EXIT_LOST));
  using counter = DeviceArray.allocate(device, { dtype: "uint64", shape: [1] });
  using stream = device.createStream();
  const count = Module.load(device, COUNT_KERNEL).kernel("count");
  const shapes = { request: NUMBERS, reply: NUMBERS, device: "host" } as const;
  await using _service = await serve(hub, SERVICE, shapes, async (request, reply) => {
    const [number = 0, ms = 0] = await request.array.expectDType("float32").read();
    count.launch({ grid: 1, block: 1, args: [counter, arg.u64(BigInt(ms) * 1_000_000n)], stream });
    if (ms === LONG_MS) tellParent("launched");
    await stream.synchronize(LIMIT);
    await (await reply.loan()).array.write([number, ms]);
  });
  tellParent("serves");
  await heard();
}
