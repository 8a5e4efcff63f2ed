// Measures what a message of 64 bytes costs its writer by the number of readers, all in the other
// process. "spinning": in batches that fit in the ring, while readers spin. "asleep": one message
// at a time, while all readers sleep. A sample is the mean of a batch, at the writer. Further
// arguments: the number of readers, and which of the two.
import type { ChannelReader } from "../../src/channel/channel-reader.js";
import { extra, isFirst, Samples, total, warmUp } from "./actor.js";
import {
  ChannelPair,
  loanSpinning,
  MESSAGE_BYTES,
  nextSpinning,
  numberOf,
  setNumber,
} from "./channel-side.js";

const SLOTS = 1024;
/** A quarter of the ring, for which the writer need not look at the readers. */
const BATCH = 256;
const PAUSE_MS = 0.5;

const readersMax = Number(extra[1]);
const asleep = extra[2] === "asleep";
const batch = asleep ? 1 : BATCH;
const pair = await ChannelPair.connect();

async function write(): Promise<void> {
  const writer = await pair.create({
    dtype: "uint8",
    shape: [MESSAGE_BYTES],
    slots: SLOTS,
    readersMax,
  });
  const samples = new Samples();
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  for (let i = 0; i < total; i += batch) {
    if (asleep) Atomics.wait(nothing, 0, 0, PAUSE_MS);
    const startMs = performance.now();
    for (let number = i; number < i + batch; number += 1) {
      const slot = loanSpinning(writer);
      setNumber(slot.bytes, number);
      slot.commit();
    }
    const endMs = performance.now();
    if (i >= warmUp) samples.add(((endMs - startMs) * 1000) / batch);
    // All readers have received it.
    pair.peer.receive();
  }
  samples.print("channel-readers");
}

function check(number: number, wanted: number): void {
  if (number !== wanted) throw new Error(`Message ${wanted} says ${number}`);
}

function readSpinning(readers: readonly ChannelReader[]): void {
  for (let i = 0; i < total; i += batch) {
    for (let number = i; number < i + batch; number += 1) {
      for (const reader of readers) {
        const slot = nextSpinning(reader);
        check(numberOf(slot.bytes), number);
        slot.release();
      }
    }
    pair.peer.sendJson(i);
  }
}

async function readAsleep(readers: readonly ChannelReader[]): Promise<void> {
  for (let i = 0; i < total; i += 1) {
    await Promise.all(
      readers.map(async (reader) => {
        using slot = await reader.next();
        if (slot !== undefined) check(numberOf(slot.bytes), i);
      }),
    );
    pair.peer.sendJson(i);
  }
}

if (isFirst) {
  await write();
} else {
  const readers = await pair.open({ spinMs: 0 });
  if (asleep) await readAsleep(readers);
  else readSpinning(readers);
}
await pair.end();
