/**
 * System S7, third exercise: a consumer that starts before its producer waits for it, with a
 * timeout, and gets the array. A consumer that comes after the producer's death gets an error. An
 * array that was opened before stays usable.
 *
 *   npx cuda-ipc demo consumer-first   with the package installed
 *   node examples/consumer-first.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 1024 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  waiting for a producer that never comes is refused: TIMEOUT: ...
 *   4712  consumer: started first, and waits
 *   4713  producer: wrote the handle of float32[1024] to frame.json
 *   4712  consumer: opened it: every element verified
 *   4711  killed the producer by SIGKILL
 *   4711  opening the handle left behind is refused: PEER_GONE: ...
 *   4712  consumer: still has every element: verified
 */
import { join } from "node:path";
import { DeviceArray } from "cuda-ipc";
import { openShared, readHandleFile, share, writeHandleFile } from "cuda-ipc/peer";
import { Child, heard, tellParent } from "./child.ts";
import {
  LIMIT,
  type Options,
  openDevice,
  refused,
  run,
  say,
  temporaryFolder,
  verify,
} from "./program.ts";

const roles: Readonly<Record<string, (options: Options) => Promise<void>>> = {
  parent,
  consumer,
  producer,
};

await run({ elements: 1024 }, (options) => (roles[options.role] ?? parent)(options));

async function parent(options: Options): Promise<void> {
  const path = join(temporaryFolder(), "frame.json");
  await refused("waiting for a producer that never comes", "TIMEOUT", () =>
    readHandleFile(path, { timeoutMs: 100 }),
  );

  using first = new Child(import.meta.url, "consumer", options, { args: [path] });
  await first.hear();
  using second = new Child(import.meta.url, "producer", options, { args: [path] });
  await second.hear();
  await first.hear();

  await second.kill();
  say("killed the producer by SIGKILL");
  // The file still names the process that wrote it, and when that process started.
  await refused("opening the handle left behind", "PEER_GONE", async () =>
    openShared(await readHandleFile(path, LIMIT)),
  );
  first.tell("look again");
  await first.finished();
}

async function consumer(options: Options): Promise<void> {
  const [path = ""] = options.args;
  using device = openDevice(options);
  say("consumer: started first, and waits");
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
