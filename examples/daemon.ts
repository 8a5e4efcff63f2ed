/**
 * System S9: a long-running process owns data on the hub and keeps changing it. Other processes, in
 * any language, show the data and change its rate. A timeline says which step the data belongs to:
 * its value is odd during a step, and even after it.
 *
 *   npx cuda-ipc demo daemon         with the package installed
 *   node examples/daemon.ts          in a clone after `npm install`, with Node 24 or newer
 *   npx cuda-ipc demo daemon serve   only the daemon, until Ctrl-C. In another terminal, watch it:
 *   npx cuda-ipc demo daemon watch
 *   python3 examples/python/show.py 2.5
 *   --elements 1024 --device cuda:0
 *
 * examples/c/daemon.c is the same daemon in C, and can be watched as well.
 *
 * The output (the numbers are processes):
 *   4712  daemon: owns "daemon-field", float32[1024] on cuda:0, and changes it at every step
 *   4711  sees step 6: every element is 6
 *   4711  set the rate to 2.5
 *   4711  sees step 14: every element is 20.5, after 10.5 at step 10: every element verified
 *   4712  daemon: ends as asked, after step 15
 */
import { setTimeout } from "node:timers/promises";
import { CudaIpcError, connect, type Hub, type ImportedTimeline, type SharedArray } from "cuda-ipc";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, runRoles, say, verify } from "./program.ts";

const STEP_MS = 20;

await runRoles({ elements: 1024 }, { parent, serve, watch });

/** A hub that this example started ends soon after its last process. */
function join({ device }: Options): Promise<Hub> {
  return connect({ device, hubIdleMs: 500, ...LIMIT });
}

async function serve(options: Options): Promise<void> {
  await using hub = await join(options);
  using steps = await hub.createTimeline("daemon-steps");
  using field = await hub.create("daemon-field", { dtype: "float32", shape: [options.elements] });
  using rate = await hub.create("daemon-rate", { dtype: "float32", shape: [1] });
  await field.fill(0);
  await rate.fill(1);
  for (const array of [field, rate]) await array.publish();
  const what = `"daemon-field", float32[${options.elements}] on ${field.device.name}`;
  say(`daemon: owns ${what}, and changes it at every step`);

  let told = false;
  const stop = () => {
    told = true;
  };
  if (process.connected) heard().then(stop, stop);
  tellParent("ready");
  let step = 0;
  for (; !(told || LIMIT.signal.aborted); step += 1) {
    const [add = 0] = await rate.read();
    steps.signal(2 * step + 1);
    await field.affine(1, add);
    steps.signal(2 * step + 2);
    await setTimeout(STEP_MS);
  }
  say(`daemon: ends as asked, after step ${step}`);
}

async function parent(options: Options): Promise<void> {
  using daemon = new Child(import.meta.url, "serve", options);
  await daemon.hear();
  await daemon.during(watch(options));
  daemon.tell("end");
  await daemon.finished();
}

async function watch(options: Options): Promise<void> {
  await using hub = await join(options);
  using steps = await hub.openTimeline("daemon-steps", LIMIT);
  using field = await hub.open("daemon-field", LIMIT);
  using rate = await hub.open("daemon-rate", { access: "read-write", ...LIMIT });
  const before = await look(field, steps);
  say(`sees step ${before.step}: every element is ${before.value}`);

  const wanted = 2.5;
  await rate.expectDType("float32").write([wanted]);
  say(`set the rate to ${wanted}`);
  // The current step may have read the old rate. The step after the next one has the new rate.
  await steps.wait(steps.value + 4n, LIMIT);
  const from = await look(field, steps);
  await steps.wait(steps.value + 4n, LIMIT);
  const to = await look(field, steps);
  verify("the growth", [to.value - from.value], () => (to.step - from.step) * wanted);
  const after = `after ${from.value} at step ${from.step}`;
  say(`sees step ${to.step}: every element is ${to.value}, ${after}: every element verified`);
}

/** Reads all elements between two steps. Reads again if a step began meanwhile. */
async function look(
  field: SharedArray,
  steps: ImportedTimeline,
): Promise<{ step: number; value: number }> {
  const endMs = performance.now() + LIMIT.timeoutMs;
  while (performance.now() < endMs) {
    const { value: at } = steps;
    if (at % 2n === 1n) await steps.wait(at + 1n, LIMIT);
    else {
      const values = await field.expectDType("float32").read();
      if (steps.value !== at) continue;
      const [value = 0] = values;
      verify(`step ${at / 2n}`, values, () => value);
      return { step: Number(at / 2n), value };
    }
  }
  throw new CudaIpcError("TIMEOUT", "The daemon takes its steps faster than its data is read");
}
