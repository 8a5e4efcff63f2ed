/**
 * System S1: a buffer of a memory pool goes to a child process and back, by a document in a
 * message. Of all ways to share, this one has the cheapest allocation.
 *
 *   npx cuda-ipc demo pool   with the package installed
 *   node examples/pool.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 1024 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  cuda:0 is ..., driver ..., has memory pools (...)
 *   4711  created a pool on cuda:0 with float32[1024] in it: 100, 101, 102, ...
 *   4711  sent the buffer to process 4712
 *   4712  opened it (mechanism: pool), without a copy, and found 100, 101, 102, ...
 *   4712  wrote i * -1 and closed it
 *   4711  sees -0, -1, -2, ... in its own buffer: every element verified
 */
import { MemoryPool } from "cuda-ipc/interop";
import { openShared, share } from "cuda-ipc/peer";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, openDevice, orSkip, run, say, verify } from "./program.ts";

await run({ elements: 1024 }, (options) =>
  options.role === "child" ? child(options) : parent(options),
);

async function parent(options: Options): Promise<void> {
  const { elements } = options;
  using device = openDevice(options);
  // A pool on a GPU allocates in units of 2 MiB.
  const maxBytes = 4 * elements + 2 ** 21;
  using pool = orSkip(() => MemoryPool.create(device, { maxBytes, shared: true }));
  const { name, driverVersion } = device.facts;
  say(`${device.name} is ${name}, driver ${driverVersion}, has memory pools (${device.reason})`);
  using array = pool.allocateArray({ dtype: "float32", shape: [elements] });
  await array.write(Float32Array.from({ length: elements }, (_, i) => i + 100));
  say(`created a pool on ${device.name} with float32[${elements}] in it: 100, 101, 102, ...`);

  using shared = share(array);
  using other = new Child(import.meta.url, "child", options);
  other.tell(shared.document);
  say(`sent the buffer to process ${other.pid}`);
  // Throws if the child ends, or is silent for 30 seconds.
  await other.hear();
  await other.finished();
  verify("the buffer after the child", await array.read(), (i) => Math.fround(i * -1));
  say("sees -0, -1, -2, ... in its own buffer: every element verified");
}

async function child(options: Options): Promise<void> {
  using device = openDevice(options);
  {
    using array = (
      await openShared(await heard(), { device, access: "read-write", ...LIMIT })
    ).expectDType("float32");
    // On the host device this is the memory itself. The CPU cannot see GPU memory, so copy it.
    const values = device.name === "host" ? array.view() : await array.read();
    verify("the buffer in the child", values, (i) => Math.fround(i + 100));
    say(
      `opened it (mechanism: ${array.buffer.mechanism}), without a copy, and found 100, 101, 102, ...`,
    );
    await array.write(Float32Array.from(values, (_, i) => i * -1));
  }
  say("wrote i * -1 and closed it");
  tellParent("done");
}
