/**
 * System S7, third exercise: a consumer that is started before its producer waits, with a limit, and gets the array; one that comes too
 * late, when the producer is dead, is told so. What was opened before is still there. Nobody waits for ever.
 *
 *   npx cuda-ipc demo consumer-first   or, in a clone after `npm install`, with Node 24 or newer: node examples/consumer-first.ts
 *   --elements 1024 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  waiting for a producer that never comes is refused: TIMEOUT: ...
 *   4712  consumer: was started first, and waits
 *   4713  producer: wrote the handle of float32[1024] to frame.json
 *   4712  consumer: opened it: every element verified
 *   4711  ended the producer by SIGKILL
 *   4711  opening the handle that is left is refused: PEER_GONE: ...
 *   4712  consumer: still has every element: verified
 */
import { join } from "node:path";
import { DeviceArray, openShared, readHandleFile, share, writeHandleFile } from "cuda-ipc";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, openDevice, refused, run, say, temporaryFolder, verify } from "./program.ts";

const roles: Readonly<Record<string, (options: Options) => Promise<void>>> = { parent, consumer, producer };

await run({ elements: 1024 }, (options) => (roles[options.role] ?? parent)(options));

async function parent(options: Options): Promise<void> {
  const path = join(temporaryFolder(), "frame.json");
  await refused("waiting for a producer that never comes", "TIMEOUT", () => readHandleFile(path, { timeoutMs: 100 }));

  using first = new Child(import.meta.url, "consumer", options, { args: [path] });
  await first.hear();
  using second = new Child(import.meta.url, "producer", options, { args: [path] });
  await second.hear();
  await first.hear();

  await second.kill();
  say("ended the producer by SIGKILL");
  // The file is still there, and says which process wrote it, and when that one started.
  await refused("opening the handle that is left", "PEER_GONE", async () =>
    openShared(await readHandleFile(path, LIMIT)),
  );
  first.tell("look again");
  await first.finished();
}

async function consumer(options: Options): Promise<void> {
  const [path = ""] = options.args;
  using device = openDevice(options);
  say("consumer: was started first, and waits");
  tellParent("waiting");
  const document = await readHandleFile(path, LIMIT);
  using array = (await openShared(document, { device, ...LIMIT })).expectDType("float32");
  verify("the array", await array.read(), Math.fround);
  say("consumer: opened it: every element verified");
  tellParent("verified");

  await heard();
  verify("the array of a dead producer", await array.read(), Math.fround);
  say("consumer: still has every element: verified");
}

async function producer(options: Options): Promise<void> {
  const [path = ""] = options.args;
  using device = openDevice(options);
  using array = DeviceArray.allocate(device, { dtype: "float32", shape: [options.elements] });
  await array.write(Float32Array.from({ length: options.elements }, (_, i) => i));
  using shared = share(array, { access: "read" });
  await writeHandleFile(path, shared);
  say(`producer: wrote the handle of float32[${options.elements}] to frame.json`);
  tellParent("written");
  await heard();
}
