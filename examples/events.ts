/**
 * System S6: a child waits for its parent's GPU by an event. The parent records the event behind
 * slow work on a stream and goes on. Neither process waits for the other's CPU.
 *
 *   npx cuda-ipc demo events   with the package installed
 *   node examples/events.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 1048576 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  queued 200 rounds of work on float32[1048576] and an event behind them (done: false)
 *   4712  imported the event (recorded: 1) and queued work behind it
 *   4711  started the stream, and did 3021 other things before the event was done
 *   4712  waited 14.2 ms for the event and the work behind it: every element verified
 */
import { setImmediate } from "node:timers/promises";
import { CudaIpcError, DeviceArray } from "cuda-ipc";
import { Event, type EventDescriptor } from "cuda-ipc/interop";
import { openShared, type SharedDocument, share } from "cuda-ipc/peer";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, openDevice, orSkip, run, say, verify } from "./program.ts";

interface Sent {
  readonly array: SharedDocument;
  readonly event: EventDescriptor;
}

const ROUNDS = 200;

await run({ elements: 2 ** 20 }, (options) =>
  options.role === "child" ? child(options) : parent(options),
);

async function parent(options: Options): Promise<void> {
  const { elements } = options;
  using device = openDevice(options);
  device.prepareOperations();
  using array = DeviceArray.allocate(device, { dtype: "float32", shape: [elements] });
  using shared = share(array);
  using event = device.createEvent();
  orSkip(() => event.export());
  // Holds the stream back until both processes are ready, so that there is something to see.
  using start = device.createTimeline();
  using stream = device.createStream();
  using other = new Child(import.meta.url, "child", options);

  stream.wait(start, 1);
  await array.fill(0, { stream });
  for (let round = 0; round < ROUNDS; round += 1) await array.affine(1, 1, { stream });
  event.record(stream);
  const { done } = event;
  say(
    `queued ${ROUNDS} rounds of work on float32[${elements}] and an event behind them (done: ${done})`,
  );
  if (done)
    throw new CudaIpcError(
      "VERIFICATION_FAILED",
      "The event is done before the work before it began",
    );
  // The descriptor says that the event was recorded. An unrecorded event would look done.
  other.tell({ array: shared.document, event: event.export() } satisfies Sent);
  await other.hear();

  start.signal(1);
  let things = 0;
  for (
    const endMs = performance.now() + LIMIT.timeoutMs;
    !event.done && performance.now() < endMs;
    things += 1
  ) {
    await setImmediate();
  }
  say(`started the stream, and did ${things} other things before the event was done`);
  await stream.synchronize(LIMIT);
  await other.hear();
  await other.finished();
}

async function child(options: Options): Promise<void> {
  const sent = await heard<Sent>();
  using device = openDevice(options);
  // Before any wait, because a waiting stream can hold up the loading of kernels.
  device.prepareOperations();
  using array = await openShared(sent.array, { device, ...LIMIT });
  using result = DeviceArray.allocate(device, { dtype: "float32", shape: array.shape });
  using event = Event.import(device, sent.event);
  using stream = device.createStream();
  stream.wait(event);
  await result.affine(2, 0, { from: array.expectDType("float32"), stream });
  say(`imported the event (recorded: ${event.recorded}) and queued work behind it`);
  tellParent("waiting");

  const startMs = performance.now();
  await event.synchronize(LIMIT);
  const waitedMs = performance.now() - startMs;
  await stream.synchronize(LIMIT);
  verify("the result of the child", await result.read(), () => 2 * ROUNDS);
  say(
    `waited ${waitedMs.toFixed(1)} ms for the event and the work behind it: every element verified`,
  );
  tellParent("done");
}
