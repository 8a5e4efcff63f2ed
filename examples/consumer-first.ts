/**
 * System S7, third exercise: a consumer that starts before its producer waits for it, with a
 * timeout, and gets the array. A consumer that comes after the producer's death gets an error. An
 * array that was opened before stays usable.
 *
 *   npx cuda-ipc demo consumer-first                  with the package installed
 *   node examples/consumer-first.ts                   in a clone after `npm install`, with Node 24
 *   npx cuda-ipc demo consumer-first consumer PATH    in one terminal, and producer PATH in another
 *   --elements 1024 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  waiting for a producer that never comes is refused: TIMEOUT: ...
 *   4712  waits for the consumer at ...
 *   4712  producer: writes the handle of float32[1024] to ...
 *   4711  opened it, killed its producer by SIGKILL, and still has every element: verified
 *   4711  opening the handle left behind is refused: PEER_GONE: ...
 *   4713  consumer: waits for a producer's handle in ...
 *   4714  waits for the consumer at ...
 *   4714  producer: writes the handle of float32[1024] to ...
 *   4713  waits for the producer at ...
 *   4713  consumer: opened it: every element verified
 *   4714  producer: the consumer has it
 *   4713  consumer: the producer has left; still has every element: verified
 */
import { DeviceArray } from "cuda-ipc";
import { openShared, readHandleFile, share, writeHandleFile } from "cuda-ipc/peer";
import { Child } from "./child.ts";
import { announce, handleFileOf, meet, parted, runPair, startBoth, temporaryPath } from "./pair.ts";
import { LIMIT, type Options, openDevice, refused, removeAtEnd, say, verify } from "./program.ts";

await runPair(import.meta.url, { elements: 1024 }, { producer, consumer, parent });

async function parent(options: Options): Promise<void> {
  const path = temporaryPath();
  const file = handleFileOf({ ...options, args: [path] });
  using device = openDevice(options);
  await refused("waiting for a producer that never comes", "TIMEOUT", () =>
    readHandleFile(file, { timeoutMs: 100 }),
  );

  using doomed = new Child(import.meta.url, "producer", options, { args: [path] });
  const document = await doomed.during(readHandleFile(file, LIMIT));
  using array = (await openShared(document, { device, ...LIMIT })).expectDType("float32");
  await doomed.kill();
  verify("the array of a dead producer", await array.read(), Math.fround);
  say("opened it, killed its producer by SIGKILL, and still has every element: verified");
  // The file still names the process that wrote it, and when that process started.
  await refused("opening the handle left behind", "PEER_GONE", async () =>
    openShared(await readHandleFile(file, LIMIT)),
  );
  // The next consumer waits until a new producer has replaced the file.
  await startBoth(import.meta.url, options, path);
}

async function consumer(options: Options): Promise<void> {
  const file = handleFileOf(options);
  using device = openDevice(options);
  say(`consumer: waits for a producer's handle in ${file}`);
  const document = await readHandleFile(file, { stale: "wait", ...LIMIT });
  using group = await meet(options);
  using array = (await openShared(document, { device, ...LIMIT })).expectDType("float32");
  verify("the array", await array.read(), Math.fround);
  say("consumer: opened it: every element verified");
  await group.barrier(LIMIT);

  await parted(group, options);
  verify("the array after its producer has left", await array.read(), Math.fround);
  say("consumer: the producer has left; still has every element: verified");
}

async function producer(options: Options): Promise<void> {
  const file = handleFileOf(options);
  using device = openDevice(options);
  using array = DeviceArray.allocate(device, { dtype: "float32", shape: [options.elements] });
  await array.write(Float32Array.from({ length: options.elements }, (_, i) => i));
  using shared = share(array, { access: "read" });
  // First, because a file of another producer that still runs must not be replaced.
  const consumer = await announce(options);
  say(`producer: writes the handle of float32[${options.elements}] to ${file}`);
  removeAtEnd(file);
  await writeHandleFile(file, shared);
  using group = await consumer();
  await group.barrier(LIMIT);
  say("producer: the consumer has it");
}
