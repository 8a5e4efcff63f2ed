// A message of 64 bytes goes to another process through one channel, and its answer comes back
// through another. Both processes spin. A sample is one round trip. The same loop in C:
// bench/c/channel-round-trip.c
import type { ChannelReader } from "../../src/channel/channel-reader.js";
import type { ChannelWriter } from "../../src/channel/channel-writer.js";
import { isFirst, Samples, total, warmUp } from "./actor.js";
import {
  ChannelPair,
  loanSpinning,
  MESSAGE_BYTES,
  nextSpinning,
  numberOf,
  setNumber,
} from "./channel-side.js";

const SLOTS = 16;

const pair = await ChannelPair.connect();

function sendNumber(writer: ChannelWriter, number: number): void {
  const slot = loanSpinning(writer);
  setNumber(slot.bytes, number);
  slot.commit();
}

function receiveNumber(reader: ChannelReader): number {
  const slot = nextSpinning(reader);
  const number = numberOf(slot.bytes);
  slot.release();
  return number;
}

function first(writer: ChannelWriter, reader: ChannelReader): void {
  const samples = new Samples();
  for (let i = 1; i <= total; i += 1) {
    const startMs = performance.now();
    sendNumber(writer, i);
    const answer = receiveNumber(reader);
    if (i > warmUp) samples.add((performance.now() - startMs) * 1000);
    if (answer !== i) throw new Error(`Answer ${answer}, wanted ${i}`);
  }
  samples.print("channel-round-trip");
}

function second(writer: ChannelWriter, reader: ChannelReader): void {
  for (let i = 1; i <= total; i += 1) sendNumber(writer, receiveNumber(reader));
}

const wanted = { dtype: "uint8", shape: [MESSAGE_BYTES], slots: SLOTS } as const;
if (isFirst) {
  const writer = await pair.create(wanted);
  const [reader] = await pair.open();
  first(writer, reader);
} else {
  const [reader] = await pair.open();
  second(await pair.create(wanted), reader);
}
await pair.end();
