/**
 * System S1: a buffer of a memory pool goes to another process and back, by a document. Of all ways
 * to share, this one has the cheapest allocation.
 *
 *   npx cuda-ipc demo pool                  with the package installed
 *   node examples/pool.ts                   in a clone after `npm install`, with Node 24 or newer
 *   npx cuda-ipc demo pool producer PATH    in one terminal, and consumer PATH in another
 *   --elements 1024 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  cuda:0 is ..., driver ..., has memory pools (...)
 *   4712  waits for the producer at ...
 *   4711  created a pool on cuda:0 with float32[1024] in it: 100, 101, 102, ...
 *   4711  waits for the consumer at ...
 *   4712  opened it (mechanism: pool), without a copy, and found 100, 101, 102, ...
 *   4712  wrote i * -1 and closed it
 *   4711  sees -0, -1, -2, ... in its own buffer: every element verified
 */
import { MemoryPool } from "cuda-ipc/interop";
import { openShared, share } from "cuda-ipc/peer";
import { meet, runPair } from "./pair.ts";
import { LIMIT, type Options, openDevice, orSkip, say, verify } from "./program.ts";

await runPair(import.meta.url, { elements: 1024 }, { producer, consumer });

async function producer(options: Options): Promise<void> {
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
  using group = await meet(options);
  await group.allGather(shared.document, LIMIT);
  // At this barrier the consumer has closed the buffer. The owner of a pool closes last.
  await group.barrier(LIMIT);
  verify("the buffer after the consumer", await array.read(), (i) => Math.fround(i * -1));
  say("sees -0, -1, -2, ... in its own buffer: every element verified");
  await group.barrier(LIMIT);
}

async function consumer(options: Options): Promise<void> {
  using device = openDevice(options);
  using group = await meet(options);
  const [document] = await group.allGather(null, LIMIT);
  {
    const opened = await openShared(document, { device, access: "read-write", ...LIMIT });
    using array = opened.expectDType("float32");
    // On the host device this is the memory itself. The CPU cannot see GPU memory, so copy it.
    const values = device.name === "host" ? array.view() : await array.read();
    verify("the buffer in the consumer", values, (i) => Math.fround(i + 100));
    say(
      `opened it (mechanism: ${array.buffer.mechanism}), without a copy, and found 100, 101, 102, ...`,
    );
    await array.write(Float32Array.from(values, (_, i) => i * -1));
  }
  say("wrote i * -1 and closed it");
  await group.barrier(LIMIT);
  // The producer has verified it.
  await group.barrier(LIMIT);
}
