/**
 * The loops of actors whose channel is filled and read by streams. A CPU enqueues only some
 * messages ahead. It follows its stream by a timeline that the stream signals at intervals. The
 * programs in C follow the other side's words instead. A call with a stream enqueues at once, so
 * its promises are awaited together.
 */
import type { DType } from "../../src/array/dtype.js";
import type { ChannelReader } from "../../src/channel/channel-reader.js";
import type { ChannelWriter } from "../../src/channel/channel-writer.js";
import type { DeviceArray } from "../../src/gpu/arrays/device-array.js";
import type { Stream } from "../../src/gpu/order/stream.js";
import { extra, finish, pumpOf, Samples, spinUntil, total, warmUp } from "./actor.js";
import { loanSpinning, nextSpinning } from "./channel-side.js";

/** The same number as in C, unless an argument sets it. */
export const slots = Number(extra[1] ?? 64);
export const SLOT_BYTES = 65536;
const CHUNK = 256;
/** How often a CPU looks at its stream. It is at most twice as many messages ahead. */
const LOOK = Math.max(64, slots / 2);

type Work<D extends DType> = (slot: DeviceArray<D>, message: number) => Promise<void>;

/** A sample is the mean of CHUNK messages. Messages count from 1. */
export async function fillByStream<D extends DType>(
  name: string,
  {
    writer,
    stream,
    fill,
  }: { readonly writer: ChannelWriter<D>; readonly stream: Stream; readonly fill: Work<D> },
): Promise<void> {
  const samples = new Samples();
  const pace = paceOf(stream);
  const pump = pumpOf(stream);
  const enqueued: Promise<void>[] = [];
  let startMs = 0;
  for (let i = 1; i <= total; i += 1) {
    if (i % LOOK === 0) {
      pace(i);
      await Promise.all(enqueued.splice(0));
    }
    if (i % CHUNK === 0) {
      const nowMs = performance.now();
      if (startMs !== 0) samples.add(((nowMs - startMs) * 1000) / CHUNK);
      startMs = i > warmUp ? nowMs : 0;
    }
    const slot = loanSpinning(writer, stream, pump);
    enqueued.push(fill(slot.array, i));
    slot.commit({ stream });
  }
  await Promise.all(enqueued);
  finish(stream);
  samples.print(name);
}

/** Takes all messages by the reader's stream. */
export async function takeByStream<D extends DType>({
  reader,
  stream,
  take,
}: {
  readonly reader: ChannelReader<D>;
  readonly stream: Stream;
  readonly take: Work<D>;
}): Promise<void> {
  const pace = paceOf(stream);
  const pump = pumpOf(stream);
  const enqueued: Promise<void>[] = [];
  for (let i = 1; i <= total; i += 1) {
    if (i % LOOK === 0) {
      pace(i);
      await Promise.all(enqueued.splice(0));
    }
    const slot = nextSpinning(reader, pump);
    enqueued.push(take(slot.array, i));
    slot.release();
  }
  await Promise.all(enqueued);
  finish(stream);
}

/**
 * Called every LOOK messages. Waits until the stream has reached the point of the previous call.
 */
function paceOf(stream: Stream): (message: number) => void {
  const done = stream.device.createTimeline({ label: "done" });
  done.prepare(stream.device);
  return (message) => {
    stream.signal(done, message);
    if (message > LOOK) spinUntil(done, message - LOOK, pumpOf(stream));
  };
}
