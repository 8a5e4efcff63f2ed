/**
 * System S4: a handle of CUDA's oldest mechanism goes through a file. The consumer may start first:
 * it waits for the file. It counts wrong elements on the device.
 *
 *   npx cuda-ipc demo legacy                  with the package installed
 *   node examples/legacy.ts                   in a clone after `npm install`, with Node 24 or newer
 *   npx cuda-ipc demo legacy producer PATH    in one terminal, and consumer PATH in another
 *   --elements 1024 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4712  waits for the handle in ...
 *   4711  waits for the consumer at ...
 *   4711  writes the handle of float32[1024] to ...
 *   4712  waits for the producer at ...
 *   4712  opened it; wrong elements: 0
 *   4712  the first 5: 42.0000, 42.0010, 42.0020, 42.0030, 42.0040
 *   4712  closed it
 *   4711  got the consumer's acknowledgement: every element verified
 */
import { CudaIpcError, DeviceArray } from "cuda-ipc";
import { IpcArrayHandle } from "cuda-ipc/interop";
import { openShared, readHandleFile, writeHandleFile } from "cuda-ipc/peer";
import { announce, handleFileOf, meet, runPair } from "./pair.ts";
import { LIMIT, type Options, openDevice, orSkip, removeAtEnd, say } from "./program.ts";

await runPair(import.meta.url, { elements: 1024 }, { producer, consumer });

function content(elements: number): Float32Array {
  return Float32Array.from({ length: elements }, (_, i) => 42 + i * 0.001);
}

async function producer(options: Options): Promise<void> {
  const { elements } = options;
  const file = handleFileOf(options);
  using device = openDevice(options);
  using array = DeviceArray.allocate(device, {
    dtype: "float32",
    shape: [elements],
    mechanism: "legacy",
  });
  const handle = orSkip(() => IpcArrayHandle.of(array));
  await array.write(content(elements));
  // First, because a file of another producer that still runs must not be replaced.
  const consumer = await announce(options);
  say(`writes the handle of float32[${elements}] to ${file}`);
  removeAtEnd(file);
  // The file appears whole or not at all, and only this user can read it.
  await writeHandleFile(file, handle.toJSON());
  using group = await consumer();
  // The handle keeps nothing alive, so keep the array open until the consumer is done.
  await group.barrier(LIMIT);
  say("got the consumer's acknowledgement: every element verified");
  await group.barrier(LIMIT);
}

async function consumer(options: Options): Promise<void> {
  const file = handleFileOf(options);
  using device = openDevice(options);
  say(`waits for the handle in ${file}`);
  // A file of a producer that has ended is ignored until a new producer replaces it.
  const document = await readHandleFile(file, { stale: "wait", ...LIMIT });
  using group = await meet(options);
  {
    using array = (await openShared(document, { device, ...LIMIT })).expectDType("float32");
    using expected = DeviceArray.allocate(device, { dtype: "float32", shape: array.shape });
    await expected.write(content(array.elementCount));
    const { differences, first } = await array.compare(expected, LIMIT);
    say(`opened it; wrong elements: ${differences}`);
    if (differences > 0) {
      throw new CudaIpcError(
        "VERIFICATION_FAILED",
        `${differences} elements differ, the first is element ${first}`,
      );
    }
    const values = await array.slice({ stop: 5 }).read();
    say(`the first ${values.length}: ${[...values].map((value) => value.toFixed(4)).join(", ")}`);
  }
  say("closed it");
  await group.barrier(LIMIT);
  // The producer has seen it.
  await group.barrier(LIMIT);
}
