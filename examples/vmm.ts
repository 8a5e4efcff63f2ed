/**
 * System S3: memory goes through a Unix socket as a file descriptor, without a hub. The consumer
 * maps it several times and acknowledges it. It keeps the memory, even if the producer ends. First
 * the program shows what can go wrong.
 *
 *   npx cuda-ipc demo vmm   with the package installed
 *   node examples/vmm.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 262144 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  receiving without a producer is refused: TIMEOUT: ...
 *   4711  receiving from the socket of a dead producer is refused: PEER_GONE: ...
 *   4711  offers int32[262144], 1048576 bytes, and its second half
 *   4713  received 262144 elements in an allocation of 2097152 bytes: verified
 *   4713  received the half, 131072 elements: verified
 *   4713  a write through one mapping is visible in another of the same memory: verified
 *   4711  both were acknowledged; sees what the consumer wrote: verified
 */
import { join } from "node:path";
import { DeviceArray } from "cuda-ipc";
import { offer, receiveOffer } from "cuda-ipc/peer";
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
  doomed,
};

await run({ elements: 262_144 }, (options) => (roles[options.role] ?? parent)(options));

function content(i: number): number {
  return (i * 2 + 1337) ^ 0xdeadbeef;
}

async function parent(options: Options): Promise<void> {
  const { elements } = options;
  const folder = temporaryFolder();
  const [path, halfPath] = [join(folder, "memory.sock"), join(folder, "half.sock")];
  using device = openDevice(options);
  await refused("receiving without a producer", "TIMEOUT", () =>
    receiveOffer(path, { timeoutMs: 100 }),
  );
  await leaveStaleSocket(path, options);
  await refused("receiving from the socket of a dead producer", "PEER_GONE", () =>
    receiveOffer(path, { timeoutMs: 100 }),
  );

  using array = DeviceArray.allocate(device, { dtype: "int32", shape: [elements] });
  await array.write(Int32Array.from({ length: elements }, (_, i) => content(i)));
  // Replaces the stale socket file. A socket with a listener would not be replaced.
  using whole = offer(path, array);
  using half = offer(halfPath, array.slice({ start: Math.floor(elements / 2) }));
  say(`offers int32[${elements}], ${array.byteLength} bytes, and its second half`);
  using other = new Child(import.meta.url, "consumer", options, { args: [path, halfPath] });
  await Promise.all([whole.acknowledged(1, LIMIT), half.acknowledged(1, LIMIT), other.finished()]);
  verify("the memory after the consumer", await array.read(), (i) => ~content(i));
  say("both were acknowledged; sees what the consumer wrote: verified");
}

async function consumer(options: Options): Promise<void> {
  const { elements } = options;
  const [path = "", halfPath = ""] = options.args;
  using device = openDevice(options);
  using whole = await receiveOffer(path, { device, access: "read-write", ...LIMIT });
  const array = whole.array.expectDType("int32");
  verify("the memory", await array.read(), content);
  const { allocationByteLength } = array.buffer;
  say(
    `received ${array.elementCount} elements in an allocation of ${allocationByteLength} bytes: verified`,
  );
  using half = await receiveOffer(halfPath, { device, ...LIMIT });
  const start = Math.floor(elements / 2);
  verify("the half", await half.array.expectDType("int32").read(), (i) => content(start + i));
  say(`received the half, ${half.array.elementCount} elements: verified`);

  using again = await receiveOffer(path, { device, ...LIMIT });
  await array.affine(-1, -1);
  verify("the second mapping", await again.array.expectDType("int32").read(), (i) => ~content(i));
  verify(
    "the half's mapping",
    await half.array.expectDType("int32").read(),
    (i) => ~content(start + i),
  );
  say("a write through one mapping is visible in another of the same memory: verified");
  for (const received of [whole, half]) received.acknowledge();
}

/** A producer that dies without cleaning up. */
async function leaveStaleSocket(path: string, options: Options): Promise<void> {
  using producer = new Child(import.meta.url, "doomed", options, { args: [path] });
  await producer.hear();
  await producer.kill();
}

async function doomed(options: Options): Promise<void> {
  const [path = ""] = options.args;
  using device = openDevice(options);
  using array = DeviceArray.allocate(device, { dtype: "int32", shape: [1] });
  using _offered = offer(path, array);
  tellParent("offered");
  await heard();
}
