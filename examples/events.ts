/**
 * System S6: a consumer waits for the producer's GPU by an event. The producer records the event
 * behind slow work on a stream and goes on. Neither process waits for the other's CPU. On a GPU
 * with NVRTC, the slow work is a kernel with 1000 rounds of sine and cosine for each element.
 *
 *   npx cuda-ipc demo events                  with the package installed
 *   node examples/events.ts                   in a clone after `npm install`, with Node 24 or newer
 *   npx cuda-ipc demo events producer PATH    in one terminal, and consumer PATH in another
 *   --elements 1048576 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  waits for the consumer at ...
 *   4712  waits for the producer at ...
 *   4711  queued 200 steps of work on float32[1048576] and an event behind them (done: false)
 *   4712  imported the event (recorded: 1) and queued work behind it
 *   4711  started the stream, and did 3021 other things before the event was done
 *   4712  waited 14.2 ms for the event and the work behind it: every element verified
 */
import { setImmediate } from "node:timers/promises";
import { CudaIpcError, DeviceArray } from "cuda-ipc";
import { Event, type EventDescriptor } from "cuda-ipc/interop";
import { openShared, type SharedDocument, share } from "cuda-ipc/peer";
import { slowWork } from "./cuda-kernels.ts";
import { meet, runPair } from "./pair.ts";
import { LIMIT, type Options, openDevice, orSkip, say, verify } from "./program.ts";

interface Sent {
  readonly array: SharedDocument;
  readonly event: EventDescriptor;
  readonly steps: number;
}

await runPair(import.meta.url, { elements: 2 ** 20 }, { producer, consumer });

async function producer(options: Options): Promise<void> {
  const { elements } = options;
  using device = openDevice(options);
  device.prepareOperations();
  using work = await slowWork(device);
  const { steps } = work;
  using array = DeviceArray.allocate(device, { dtype: "float32", shape: [elements] });
  using shared = share(array);
  using event = device.createEvent();
  orSkip(() => event.export());
  using stream = device.createStream();
  // Holds the stream back until both processes are ready, so that there is something to see.
  using start = device.createTimeline();
  using group = await meet(options);

  stream.wait(start, 1);
  await array.fill(0, { stream });
  for (let step = 0; step < steps; step += 1) await work.add(array, stream);
  event.record(stream);
  const { done } = event;
  const what = `${steps} steps of work on float32[${elements}] and an event behind them`;
  say(`queued ${what} (done: ${done})`);
  if (done)
    throw new CudaIpcError(
      "VERIFICATION_FAILED",
      "The event is done before the work before it began",
    );
  // The descriptor says that the event was recorded. An unrecorded event would look done.
  const sent: Sent = { array: shared.document, event: event.export(), steps };
  await group.allGather(sent, LIMIT);
  await group.barrier(LIMIT);

  start.signal(1);
  let things = 0;
  for (
    const endMs = performance.now() + LIMIT.timeoutMs;
    !event.done && performance.now() < endMs;
    things += 1
  ) {
    LIMIT.signal.throwIfAborted();
    await setImmediate();
  }
  say(`started the stream, and did ${things} other things before the event was done`);
  await stream.synchronize(LIMIT);
  // The consumer uses the event and the array until this barrier.
  await group.barrier(LIMIT);
}

async function consumer(options: Options): Promise<void> {
  using device = openDevice(options);
  // Before any wait, because a waiting stream can hold up the loading of kernels.
  device.prepareOperations();
  using stream = device.createStream();
  using group = await meet(options);
  const [sent] = await group.allGather(null, LIMIT);
  const { array: document, event: descriptor, steps } = sent as Sent;
  using array = await openShared(document, { device, ...LIMIT });
  using result = DeviceArray.allocate(device, { dtype: "float32", shape: array.shape });
  using event = Event.import(device, descriptor);
  stream.wait(event);
  await result.affine(2, 0, { from: array.expectDType("float32"), stream });
  say(`imported the event (recorded: ${event.recorded}) and queued work behind it`);
  await group.barrier(LIMIT);

  const startMs = performance.now();
  await event.synchronize(LIMIT);
  const waitedMs = performance.now() - startMs;
  await stream.synchronize(LIMIT);
  verify("the result of the consumer", await result.read(), () => 2 * steps);
  say(
    `waited ${waitedMs.toFixed(1)} ms for the event and the work behind it: every element verified`,
  );
  await group.barrier(LIMIT);
}
