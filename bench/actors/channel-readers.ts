// What a message of 64 bytes costs its writer with so many readers, all in the other process: in batches that the ring has room for, where
// the readers spin ("spinning"), or one message at a time, where all of them sleep ("asleep"). A sample is the mean of a batch, at the
// writer. Arguments beyond those of all actors of channels: the number of readers, and which.
import type { ChannelReader } from "../../src/channel/channel-reader.js";
import { extra, isFirst, Samples, total, warmUp } from "./actor.js";
import { ChannelPair, loanSpinning, MESSAGE_BYTES, nextSpinning, numberOf, setNumber } from "./channel-side.js";

const SLOTS = 1024;
/** The writer sees without a look at the readers that there is room for a quarter of the ring. */
const BATCH = 256;
const PAUSE_MS = 0.5;

const readersMax = Number(extra[1]);
const asleep = extra[2] === "asleep";
const batch = asleep ? 1 : BATCH;
const pair = await ChannelPair.connect();

async function write(): Promise<void> {
  const writer = await pair.create({ dtype: "uint8", shape: [MESSAGE_BYTES], slots: SLOTS, readersMax });
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
    // All of them have got there.
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
