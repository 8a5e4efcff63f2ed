/**
 * System S7 as a pipeline: one process decodes frames, the next computes on the device, the last
 * checks and encodes them. Frames go through shared memory, in two channels. The stage in the
 * middle is killed at work and replaced. No frame is missed: the last stage holds each frame in the
 * first channel until it has the result, so the new stage finds it there.
 *
 *   npx cuda-ipc demo pipeline   with the package installed
 *   node examples/pipeline.ts    in a clone after `npm install`, with Node 24 or newer
 *   --elements 65536 --device cuda:0
 *
 * The output (the numbers are processes):
 *   4712  decode: sends 120 frames of int32[65536], made from runs of pixels
 *   4713  process: computes 2 * x + 1 on cuda:0
 *   4711  killed process 4713, which was at work on frame 40
 *   4714  process: goes on with frame 38
 *   4715  encode: got 120 frames in order, 5.1% of their size after encoding: verified
 *   4711  0 frames were missed; frame 40 was done by the next process, 2 before it were done again
 */
import { setTimeout } from "node:timers/promises";
import { type ChannelWriter, CudaIpcError, connect, type Hub } from "cuda-ipc";
import { Child, heard, tellParent } from "./child.ts";
import { LIMIT, type Options, runRoles, say, verify } from "./program.ts";
import { encodedRuns, pixelsOf, runsOf } from "./run-lengths.ts";

const FRAMES = 120;
const SLOTS = 8;
/** The frame at which the first stage in the middle is killed. */
const KILLED_AT = 40;

await runRoles({ elements: 65_536 }, { parent, decode, process: compute, encode });

/** A hub that this example started ends soon after its last process. */
function join({ device }: Options): Promise<Hub> {
  return connect({ device, hubIdleMs: 500, ...LIMIT });
}

async function parent(options: Options): Promise<void> {
  const name = `pipeline-${process.pid}`;
  const start = (role: string, ...args: string[]) =>
    new Child(import.meta.url, role, options, { args: [name, ...args] });
  using decoder = start("decode");
  using encoder = start("encode");
  using first = start("process", "first");
  await decoder.during(encoder.during(first.hear()));
  await first.kill();
  say(`killed process ${first.pid}, which was at work on frame ${KILLED_AT}`);
  using second = start("process", "next");
  const { begins } = await second.hear<{ begins: number }>();
  const result = encoder.hear<{ frames: number; again: number }>();
  const { frames, again } = await second.during(result);
  for (const stage of [decoder, second, encoder]) await stage.finished();
  verify("the frames that arrived", [frames], () => FRAMES);
  verify("those that arrived again", [again], () => KILLED_AT - begins);
  const done = `frame ${KILLED_AT} was done by the next process`;
  say(`${FRAMES - frames} frames were missed; ${done}, ${again} before it were done again`);
}

async function decode(options: Options): Promise<void> {
  const { elements } = options;
  await using hub = await join(options);
  const content = { dtype: "int32", shape: [elements], slots: SLOTS } as const;
  using writer = await hub.createChannel(`${options.args[0]}-decoded`, content);
  await writer.waitForReaders(2, LIMIT);
  say(`decode: sends ${FRAMES} frames of int32[${elements}], made from runs of pixels`);
  for (let frame = 0; frame < FRAMES; frame += 1) {
    // Waits while the slowest of the two readers has not released the slot.
    using slot = await writer.loan(LIMIT);
    await slot.array.write(pixelsOf(runsOf(frame, elements), elements));
    slot.commit({ meta: { frame } });
  }
}

async function compute(options: Options): Promise<void> {
  const [name = "", order] = options.args;
  const isFirst = order === "first";
  await using hub = await join(options);
  const from = isFirst ? "next" : "oldest";
  using reader = await hub.openChannel(`${name}-decoded`, { dtype: "int32", from, ...LIMIT });
  const content = { dtype: "int32", shape: [options.elements], slots: SLOTS } as const;
  const writer: ChannelWriter = isFirst
    ? await hub.createChannel(`${name}-processed`, { ...content, whenWriterGone: "wait" })
    : await resume(hub, `${name}-processed`);
  await writer.waitForReaders(1, LIMIT);
  if (isFirst) say(`process: computes 2 * x + 1 on ${writer.device.name}`);
  for (let isNew = !isFirst; ; isNew = false) {
    using input = await reader.next(LIMIT);
    if (input === undefined) break;
    const frame = numberOf(input);
    if (isNew) {
      say(`process: goes on with frame ${frame}`);
      tellParent({ begins: frame });
    }
    using output = await writer.loan(LIMIT);
    await output.array.expectDType("int32").affine(2, 1, { from: input.array });
    if (isFirst && frame === KILLED_AT) {
      tellParent("at work");
      await heard();
    }
    output.commit({ meta: { frame } });
  }
  // Ends the channel. close() would leave it to the next writer.
  writer.end();
}

/** The number of a message's frame. */
function numberOf(message: { readonly json: unknown } | undefined): number {
  return Number((message?.json as { frame?: number } | undefined)?.frame);
}

/** The killed process is the writer until the hub has noticed its end. */
async function resume(hub: Hub, name: string): Promise<ChannelWriter> {
  for (const endMs = performance.now() + LIMIT.timeoutMs; ; await setTimeout(5)) {
    try {
      return await hub.resumeChannel(name, LIMIT);
    } catch (error) {
      const isInUse = error instanceof CudaIpcError && error.code === "IN_USE";
      if (!isInUse || performance.now() > endMs) throw error;
    }
  }
}

async function encode(options: Options): Promise<void> {
  const { elements, args } = options;
  await using hub = await join(options);
  using processed = await hub.openChannel(`${args[0]}-processed`, { dtype: "int32", ...LIMIT });
  using originals = await hub.openChannel(`${args[0]}-decoded`, { dtype: "int32", ...LIMIT });
  let [next, again, runs] = [0, 0, 0];
  for (;;) {
    using slot = await processed.next(LIMIT);
    if (slot === undefined) break;
    const frame = numberOf(slot);
    const expected = runsOf(frame, elements).flatMap(([x, length]) => [2 * x + 1, length]);
    const found = encodedRuns(await slot.array.read());
    verify(`the runs of frame ${frame}`, found, (i) => expected[i] ?? Number.NaN);
    if (frame < next) {
      again += 1;
      continue;
    }
    // Releases the original only now.
    using original = await originals.next(LIMIT);
    verify("the frame's number", [frame, numberOf(original)], () => next);
    verify("the number of runs", [found.length], () => expected.length);
    next += 1;
    runs += found.length / 2;
  }
  const percent = ((100 * 2 * runs) / (FRAMES * elements)).toFixed(1);
  say(`encode: got ${next} frames in order, ${percent}% of their size after encoding: verified`);
  tellParent({ frames: next, again });
}
