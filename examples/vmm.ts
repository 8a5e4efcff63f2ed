/**
 * System S3: memory goes through a Unix socket as a file descriptor, without a hub. The consumer
 * maps it several times and acknowledges it. It keeps the memory, even if the producer ends. First
 * the program shows what can go wrong.
 *
 *   npx cuda-ipc demo vmm                  with the package installed
 *   node examples/vmm.ts                   in a clone after `npm install`, with Node 24 or newer
 *   npx cuda-ipc demo vmm producer PATH    in one terminal, and consumer PATH in another
 *   --elements 262144 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  receiving without a producer is refused: TIMEOUT: ...
 *   4712  offers int32[262144], 1048576 bytes, and its second half at ...
 *   4711  received it, and killed its producer by SIGKILL
 *   4711  receiving from the socket of a dead producer is refused: PEER_GONE: ...
 *   4713  waits for an offer at ...
 *   4714  offers int32[262144], 1048576 bytes, and its second half at ...
 *   4713  received 262144 elements in an allocation of 2097152 bytes: verified
 *   4713  received the half, 131072 elements: verified
 *   4713  a write through one mapping is visible in another of the same memory: verified
 *   4714  both were acknowledged; sees what the consumer wrote: verified
 */
import { DeviceArray } from "cuda-ipc";
import { offer, receiveOffer } from "cuda-ipc/peer";
import { Child } from "./child.ts";
import { pathOf, runPair, startBoth, temporaryPath } from "./pair.ts";
import { LIMIT, type Options, openDevice, refused, say, verify } from "./program.ts";

/** The second half has an offer of its own. */
const halfOf = (path: string) => `${path}.half`;
const sockets = (path: string) => [path, halfOf(path)];

await runPair(import.meta.url, { elements: 262_144 }, { producer, consumer, parent, sockets });

function content(i: number): number {
  return (i * 2 + 1337) ^ 0xdeadbeef;
}

async function parent(options: Options): Promise<void> {
  const path = temporaryPath();
  using device = openDevice(options);
  await refused("receiving without a producer", "TIMEOUT", () =>
    receiveOffer(path, { timeoutMs: 100 }),
  );

  using doomed = new Child(import.meta.url, "producer", options, { args: [path] });
  using _received = await doomed.during(receiveOffer(path, { device, ...LIMIT }));
  await doomed.kill();
  say("received it, and killed its producer by SIGKILL");
  await refused("receiving from the socket of a dead producer", "PEER_GONE", () =>
    receiveOffer(path, { timeoutMs: 100 }),
  );
  // The next producer replaces the stale socket. A socket with a listener would not be replaced.
  await startBoth(import.meta.url, options, path);
}

async function producer(options: Options): Promise<void> {
  const { elements } = options;
  const path = pathOf(options);
  using device = openDevice(options);
  using array = DeviceArray.allocate(device, { dtype: "int32", shape: [elements] });
  await array.write(Int32Array.from({ length: elements }, (_, i) => content(i)));
  using whole = offer(path, array);
  using half = offer(halfOf(path), array.slice({ start: Math.floor(elements / 2) }));
  const what = `int32[${elements}], ${array.byteLength} bytes, and its second half`;
  say(`offers ${what} at ${path}`);
  // A consumer that dies before it has acknowledged does not count: another one may come.
  await Promise.all([whole.acknowledged(1, LIMIT), half.acknowledged(1, LIMIT)]);
  verify("the memory after the consumer", await array.read(), (i) => ~content(i));
  say("both were acknowledged; sees what the consumer wrote: verified");
}

async function consumer(options: Options): Promise<void> {
  const path = pathOf(options);
  using device = openDevice(options);
  say(`waits for an offer at ${path}`);
  using whole = await receiveOffer(path, { device, access: "read-write", ...LIMIT });
  using half = await receiveOffer(halfOf(path), { device, ...LIMIT });
  using again = await receiveOffer(path, { device, ...LIMIT });
  const array = whole.array.expectDType("int32");
  verify("the memory", await array.read(), content);
  const { allocationByteLength } = array.buffer;
  say(
    `received ${array.elementCount} elements in an allocation of ${allocationByteLength} bytes: verified`,
  );
  const start = Math.floor(array.elementCount / 2);
  const second = half.array.expectDType("int32");
  verify("the half", await second.read(), (i) => content(start + i));
  say(`received the half, ${second.elementCount} elements: verified`);

  await array.affine(-1, -1);
  verify("the second mapping", await again.array.expectDType("int32").read(), (i) => ~content(i));
  verify("the half's mapping", await second.read(), (i) => ~content(start + i));
  say("a write through one mapping is visible in another of the same memory: verified");
  for (const received of [whole, half]) received.acknowledge();
}
