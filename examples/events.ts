/**
 * System S6: a child waits for its parent's GPU by an event, on its own. The parent records the event behind slow work on a stream and
 * goes on; neither process waits for the other's CPU.
 *
 *   npx cuda-ipc demo events           or, in a clone after `npm install`, with Node 24 or newer: node examples/events.ts
 *   --elements 1048576 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  gave its stream 200 rounds of work on float32[1048576] and recorded an event behind them (done: false)
 *   4712  imported the event (recorded: 1) and gave its own stream work behind it
 *   4711  lets the stream begin, and goes on: did 3021 other things before the event was done
 *   4712  waited 14.2 ms for the event; its work behind it is done: every element verified
 */
import { setImmediate } from "node:timers/promises";
import {
  CudaIpcError,
  DeviceArray,
  Event,
  type EventDescriptor,
  openShared,
  type SharedDocument,
  share,
} from "cuda-ipc";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, openDevice, orSkip, run, say, verify } from "./program.ts";

interface Sent {
  readonly array: SharedDocument;
  readonly event: EventDescriptor;
}

const ROUNDS = 200;

await run({ elements: 2 ** 20 }, (options) => (options.role === "child" ? child(options) : parent(options)));

async function parent(options: Options): Promise<void> {
  const { elements } = options;
  using device = openDevice(options);
  device.prepareOperations();
  using array = DeviceArray.allocate(device, { dtype: "float32", shape: [elements] });
  using shared = share(array);
  using event = device.createEvent();
  orSkip(() => event.export());
  // Holds the stream back until everything is in place, so that there is something to see.
  using start = device.createTimeline();
  using stream = device.createStream();
  using other = new Child(import.meta.url, "child", options);

  stream.wait(start, 1);
  await array.fill(0, { stream });
  for (let round = 0; round < ROUNDS; round += 1) await array.affine(1, 1, { stream });
  event.record(stream);
  const { done } = event;
  say(
    `gave its stream ${ROUNDS} rounds of work on float32[${elements}] and recorded an event behind them (done: ${done})`,
  );
  if (done) throw new CudaIpcError("VERIFICATION_FAILED", "The event is done before the work before it began");
  // The descriptor says that the event was recorded: one that was not could not be told from one that is done.
  other.tell({ array: shared.document, event: event.export() } satisfies Sent);
  await other.hear();

  start.signal(1);
  let things = 0;
  for (const endMs = performance.now() + LIMIT.timeoutMs; !event.done && performance.now() < endMs; things += 1) {
    await setImmediate();
  }
  say(`lets the stream begin, and goes on: did ${things} other things before the event was done`);
  await stream.synchronize(LIMIT);
  await other.hear();
  await other.finished();
}

async function child(options: Options): Promise<void> {
  const sent = await heard<Sent>();
  using device = openDevice(options);
  // Before anything is waited for: a stream that waits can hold up the loading of kernels.
  device.prepareOperations();
  using array = await openShared(sent.array, { device, ...LIMIT });
  using result = DeviceArray.allocate(device, { dtype: "float32", shape: array.shape });
  using event = Event.import(device, sent.event);
  using stream = device.createStream();
  stream.wait(event);
  await result.affine(2, 0, { from: array.expectDType("float32"), stream });
  say(`imported the event (recorded: ${event.recorded}) and gave its own stream work behind it`);
  tellParent("waiting");

  const startMs = performance.now();
  await event.synchronize(LIMIT);
  const waitedMs = performance.now() - startMs;
  await stream.synchronize(LIMIT);
  verify("the result of the child", await result.read(), () => 2 * ROUNDS);
  say(`waited ${waitedMs.toFixed(1)} ms for the event; its work behind it is done: every element verified`);
  tellParent("done");
}
