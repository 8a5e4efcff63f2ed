// Messages of 64 bytes, one way through a channel, between two processes that spin. A sample is the
// mean of CHUNK messages, at the reader. The same loop in C: bench/c/channel-throughput.c
import { isFirst, Samples, total, warmUp } from "./actor.js";
import {
  ChannelPair,
  loanSpinning,
  MESSAGE_BYTES,
  nextSpinning,
  numberOf,
  setNumber,
} from "./channel-side.js";

const CHUNK = 1024;
const SLOTS = 1024;

const pair = await ChannelPair.connect();

async function read(): Promise<void> {
  const [reader] = await pair.open();
  const samples = new Samples();
  let startMs = 0;
  for (let i = 0; i < total; i += 1) {
    const slot = nextSpinning(reader);
    const number = numberOf(slot.bytes);
    if (number !== i) throw new Error(`Message ${i} says ${number}`);
    slot.release();
    if ((i + 1) % CHUNK !== 0) continue;
    const nowMs = performance.now();
    if (startMs !== 0) samples.add(((nowMs - startMs) * 1000) / CHUNK);
    startMs = i >= warmUp ? nowMs : 0;
  }
  samples.print("channel-throughput");
}

async function write(): Promise<void> {
  const writer = await pair.create({ dtype: "uint8", shape: [MESSAGE_BYTES], slots: SLOTS });
  for (let i = 0; i < total; i += 1) {
    const slot = loanSpinning(writer);
    setNumber(slot.bytes, i);
    slot.commit();
  }
}

await (isFirst ? read() : write());
await pair.end();
