/**
 * System S7, second exercise: a ring of buffers streams frames from one process to another. Two
 * timelines keep the order: the producer does not overwrite a frame before it is consumed, and the
 * consumer does not read a frame before it is produced. Streams do the waiting: on a GPU, no CPU
 * stands between one frame and the next.
 *
 *   npx cuda-ipc demo ring                  with the package installed
 *   node examples/ring.ts                   in a clone after `npm install`, with Node 24 or newer
 *   npx cuda-ipc demo ring producer NAME    in one terminal, and consumer NAME in another
 *   --elements 65536 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4712  waits for the ring ...
 *   4711  made a ring of 4 slots of int32[65536] on cuda:0; waits for the consumer of ...
 *   4711  queued 100 frames
 *   4712  consumed 100 frames in order, 26214400 bytes: every element verified
 *   4711  all 100 frames were consumed
 */
import { connect, DeviceArray, type Hub, type ImportedTimeline, type Timeline } from "cuda-ipc";
import { pathOf, runPair, startBoth } from "./pair.ts";
import { LIMIT, type Options, say, verify } from "./program.ts";

const SLOTS = 4;
const FRAMES = 100;

await runPair(
  import.meta.url,
  { elements: 65_536 },
  {
    producer,
    consumer,
    parent: (options) => startBoth(import.meta.url, options, `ring-${process.pid}`),
    // They meet by a name on the hub, which frees what a dead process had.
    sockets: () => [],
  },
);

/** A hub that this example started ends soon after its last process. */
function join({ device }: Options): Promise<Hub> {
  return connect({ device, hubIdleMs: 500, ...LIMIT });
}

async function producer(options: Options): Promise<void> {
  const name = pathOf(options);
  await using hub = await join(options);
  const { elements } = options;
  // Throws NAME_TAKEN if another producer has the name.
  using ring = await hub.create(name, { dtype: "int32", shape: [SLOTS, elements] });
  using produced = await hub.createTimeline(`${name}-produced`);
  await ring.publish();
  const { device } = ring;
  const what = `made a ring of ${SLOTS} slots of int32[${elements}] on ${device.name}`;
  say(`${what}; waits for the consumer of ${name}`);
  using consumed = await hub.openTimeline(`${name}-consumed`, LIMIT);
  // Its first use registers the timeline's memory, which a waiting stream could hold up.
  for (const timeline of [consumed, produced]) timeline.prepare(device);
  device.prepareOperations();
  using stream = device.createStream();
  for (let f = 0; f < FRAMES; f += 1) {
    // The slot is free when its earlier frame has been consumed.
    if (f >= SLOTS) stream.wait(consumed, f - SLOTS + 1);
    await ring.slice(f % SLOTS).iota(f * 1000, 1, { stream });
    stream.signal(produced, f + 1);
  }
  say(`queued ${FRAMES} frames`);
  await stream.synchronize(LIMIT);
  await consumed.wait(FRAMES, LIMIT);
  say(`all ${FRAMES} frames were consumed`);
}

async function consumer(options: Options): Promise<void> {
  const name = pathOf(options);
  await using hub = await join(options);
  say(`waits for the ring ${name}`);
  using ring = await hub.open(name, { dtype: "int32", ...LIMIT });
  // Throws NAME_TAKEN if the ring has another consumer.
  using consumed = await hub.createTimeline(`${name}-consumed`);
  using produced = await hub.openTimeline(`${name}-produced`, LIMIT);
  const byteLength = await consume(ring, consumed, produced);
  say(`consumed ${FRAMES} frames in order, ${byteLength} bytes: every element verified`);
}

async function consume(
  ring: DeviceArray<"int32">,
  consumed: Timeline,
  produced: ImportedTimeline,
): Promise<number> {
  const { device } = ring;
  for (const timeline of [consumed, produced]) timeline.prepare(device);
  using frame = DeviceArray.allocate(device, { dtype: "int32", shape: ring.shape.slice(1) });
  using stream = device.createStream();
  for (let f = 0; f < FRAMES; f += 1) {
    stream.wait(produced, f + 1);
    await frame.copyFrom(ring.slice(f % SLOTS), { stream });
    // The last signal waits for the check below: it tells the producer that all are verified.
    if (f < FRAMES - 1) stream.signal(consumed, f + 1);
    // The producer gets the slot back after the copy, so the check takes the consumer's own time.
    await stream.synchronize(LIMIT);
    verify(`frame ${f}`, await frame.read(), (i) => (f * 1000 + i) | 0);
  }
  consumed.signal(FRAMES);
  return FRAMES * frame.byteLength;
}
