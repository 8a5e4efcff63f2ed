/**
 * Systems S4 and S6 with kernels of your own: both processes compile CUDA C++ at run time and
 * launch it on one array. The producer's kernel fills it. The consumer's kernels count wrong
 * elements and double it in place. Then the producer queues a slow kernel and an event behind it,
 * and the consumer's stream waits for the event. Skipped without a GPU or without NVRTC.
 *
 *   npx cuda-ipc demo kernels                  with the package installed
 *   node examples/kernels.ts                   in a clone after `npm install`, with Node 24
 *   npx cuda-ipc demo kernels producer PATH    in one terminal, and consumer PATH in another
 *   --elements 1048576 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  wrote 42 + i * 0.001 to float32[1048576] on cuda:0 with a kernel
 *   4711  waits for the consumer at ...
 *   4712  waits for the producer at ...
 *   4712  a kernel counted 0 errors in 1048576 elements
 *   4712  doubled every element in place with a kernel
 *   4711  sees every element doubled: verified
 *   4711  queued a kernel with 1000 rounds of sin and cos, and an event behind it (done: ...)
 *   4712  its stream waited for the event, and its copy has the kernel's work: verified
 *   4711  every element of its own array has it, too: verified
 */
import { CudaIpcError, DeviceArray } from "cuda-ipc";
import { Event } from "cuda-ipc/interop";
import { arg, type Module } from "cuda-ipc/kernels";
import { openShared, share } from "cuda-ipc/peer";
import { content, launch, loadKernels, ROUNDS } from "./cuda-kernels.ts";
import { meet, runPair } from "./pair.ts";
import { LIMIT, type Options, openDevice, say, skippedFor, verify } from "./program.ts";

await runPair(import.meta.url, { elements: 2 ** 20 }, { producer, consumer });

async function producer(options: Options): Promise<void> {
  const { elements } = options;
  using device = openDevice(options);
  using kernels = await orSkipped(loadKernels(device));
  using array = DeviceArray.allocate(device, { dtype: "float32", shape: [elements] });
  using stream = device.createStream();
  launch(kernels, "produce", array, stream);
  await stream.synchronize(LIMIT);
  say(`wrote 42 + i * 0.001 to float32[${elements}] on ${device.name} with a kernel`);

  using shared = share(array);
  using event = device.createEvent();
  using group = await meet(options);
  await group.allGather(shared.document, LIMIT);
  await group.barrier(LIMIT);
  verify("the array after the consumer's kernel", await array.read(), doubled);
  say("sees every element doubled: verified");

  launch(kernels, "slow", array, stream, arg.u32(ROUNDS));
  event.record(stream);
  const what = `a kernel with ${ROUNDS} rounds of sin and cos, and an event behind it`;
  say(`queued ${what} (done: ${event.done})`);
  // The descriptor says that the event was recorded. An unrecorded event would look done.
  await group.allGather(event.export(), LIMIT);
  // The consumer uses the event and the array until this barrier.
  await group.barrier(LIMIT);
  await stream.synchronize(LIMIT);
  verify("the array after the slow kernel", await array.read(), doubledAndOne);
  say("every element of its own array has it, too: verified");
  await group.barrier(LIMIT);
}

async function consumer(options: Options): Promise<void> {
  using device = openDevice(options);
  using kernels = await orSkipped(loadKernels(device));
  using stream = device.createStream();
  using group = await meet(options);
  const [document] = await group.allGather(null, LIMIT);
  using opened = await openShared(document, { device, access: "read-write", ...LIMIT });
  const array = opened.expectDType("float32");

  using errors = DeviceArray.allocate(device, { dtype: "uint32", shape: [1] });
  await errors.fill(0, { stream });
  launch(kernels, "count_errors", array, stream, errors);
  await stream.synchronize(LIMIT);
  const [found = Number.NaN] = await errors.read();
  say(`a kernel counted ${found} errors in ${array.elementCount} elements`);
  if (found !== 0) throw new CudaIpcError("VERIFICATION_FAILED", `${found} elements are wrong`);
  launch(kernels, "twice", array, stream);
  await stream.synchronize(LIMIT);
  say("doubled every element in place with a kernel");

  using result = DeviceArray.allocate(device, { dtype: "float32", shape: array.shape });
  await group.barrier(LIMIT);
  const [descriptor] = await group.allGather(null, LIMIT);
  using event = Event.import(device, descriptor);
  stream.wait(event);
  await result.copyFrom(array, { stream });
  await stream.synchronize(LIMIT);
  verify("the copy behind the event", await result.read(), doubledAndOne);
  say("its stream waited for the event, and its copy has the kernel's work: verified");
  await group.barrier(LIMIT);
  // The producer has verified it.
  await group.barrier(LIMIT);
}

/** Ends the example if there is no GPU or no compiler. */
async function orSkipped(loading: Promise<Module>): Promise<Module> {
  return loading.catch((error: unknown) => {
    throw skippedFor(error);
  });
}

function doubled(i: number): number {
  return Math.fround(2 * content(i));
}

function doubledAndOne(i: number): number {
  return Math.fround(doubled(i) + 1);
}
