/**
 * System S7, second exercise: a ring of buffers streams frames from one process to another. Two
 * timelines keep the order: the producer does not overwrite a frame before it is consumed, and the
 * consumer does not read a frame before it is produced. Streams do the waiting: on a GPU, no CPU
 * stands between one frame and the next.
 *
 *   npx cuda-ipc demo ring   with the package installed
 *   node examples/ring.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 65536 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4711  made a ring of 4 slots of int32[65536] on cuda:0
 *   4712  joins as the producer
 *   4712  produced 100 frames
 *   4711  consumed 100 frames in order, 26214400 bytes: every element verified
 */
import { connect, DeviceArray, type Hub, type ImportedTimeline, type Timeline } from "cuda-ipc";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, run, say, verify } from "./program.ts";

const SLOTS = 4;
const FRAMES = 100;

await run({ elements: 65_536 }, (options) =>
  options.role === "producer" ? producer(options) : consumer(options),
);

/** A hub that this example started ends soon after its last process. */
function join({ device }: Options): Promise<Hub> {
  return connect({ device, hubIdleMs: 500, ...LIMIT });
}

async function consumer(options: Options): Promise<void> {
  const { elements } = options;
  const name = `ring-${process.pid}`;
  await using hub = await join(options);
  using ring = await hub.create(name, { dtype: "int32", shape: [SLOTS, elements] });
  await ring.publish();
  say(`made a ring of ${SLOTS} slots of int32[${elements}] on ${ring.device.name}`);
  using consumed = await hub.createTimeline(`${name}-consumed`);
  using other = new Child(import.meta.url, "producer", options, { args: [name] });
  await other.hear();
  using produced = await other.during(hub.openTimeline(`${name}-produced`, LIMIT));
  const byteLength = await other.during(consume(ring, consumed, produced));
  other.tell("end");
  await other.finished();
  say(`consumed ${FRAMES} frames in order, ${byteLength} bytes: every element verified`);
}

async function consume(
  ring: DeviceArray<"int32">,
  consumed: Timeline,
  produced: ImportedTimeline,
): Promise<number> {
  const { device } = ring;
  // Its first use registers the timeline's memory, which a waiting stream could hold up.
  for (const timeline of [consumed, produced]) timeline.prepare(device);
  using frame = DeviceArray.allocate(device, { dtype: "int32", shape: ring.shape.slice(1) });
  using stream = device.createStream();
  for (let f = 0; f < FRAMES; f += 1) {
    stream.wait(produced, f + 1);
    await frame.copyFrom(ring.slice(f % SLOTS), { stream });
    stream.signal(consumed, f + 1);
    // The producer gets the slot back after the copy, so the check below takes its time.
    await stream.synchronize(LIMIT);
    verify(`frame ${f}`, await frame.read(), (i) => (f * 1000 + i) | 0);
  }
  return FRAMES * frame.byteLength;
}

async function producer(options: Options): Promise<void> {
  const [name = ""] = options.args;
  await using hub = await join(options);
  using ring = await hub.open(name, { access: "read-write", ...LIMIT });
  const slots = ring.expectDType("int32");
  const { device } = ring;
  using consumed = await hub.openTimeline(`${name}-consumed`, LIMIT);
  using produced = await hub.createTimeline(`${name}-produced`);
  for (const timeline of [consumed, produced]) timeline.prepare(device);
  device.prepareOperations();
  using stream = device.createStream();
  say("joins as the producer");
  tellParent("ready");
  for (let f = 0; f < FRAMES; f += 1) {
    // The slot is free when its earlier frame has been consumed.
    if (f >= SLOTS) stream.wait(consumed, f - SLOTS + 1);
    await slots.slice(f % SLOTS).iota(f * 1000, 1, { stream });
    stream.signal(produced, f + 1);
  }
  await stream.synchronize(LIMIT);
  say(`produced ${FRAMES} frames`);
  await heard();
}
