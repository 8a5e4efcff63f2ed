// Messages of one size, one way through a channel, between two processes that spin and touch only
// the first and last 64 bytes. A sample is the mean of CHUNK messages, at the reader. Further
// argument: the size in bytes.
import { extra, isFirst, Samples, total, warmUp } from "./actor.js";
import { ChannelPair, loanSpinning, nextSpinning, numberOf, setNumber } from "./channel-side.js";

const CHUNK = 64;
const SLOTS = 4;
const EDGE_BYTES = 64;

const byteLength = Number(extra[1]);
const pair = await ChannelPair.connect();

async function read(): Promise<void> {
  const [reader] = await pair.open();
  const samples = new Samples();
  let startMs = 0;
  for (let i = 0; i < total; i += 1) {
    const slot = nextSpinning(reader);
    const { bytes } = slot;
    const number = numberOf(bytes);
    if (number !== i) throw new Error(`Message ${i} says ${number}`);
    let sum = 0;
    for (let at = 4; at < EDGE_BYTES; at += 1) {
      sum += (bytes[at] as number) + (bytes[byteLength - 1 - at] as number);
    }
    if (sum !== 2 * (EDGE_BYTES - 4) * (i % 128)) throw new Error(`Message ${i} has other bytes`);
    slot.release();
    if ((i + 1) % CHUNK !== 0) continue;
    const nowMs = performance.now();
    if (startMs !== 0) samples.add(((nowMs - startMs) * 1000) / CHUNK);
    startMs = i >= warmUp ? nowMs : 0;
  }
  samples.print("channel-sizes");
}

async function write(): Promise<void> {
  const writer = await pair.create({ dtype: "uint8", shape: [byteLength], slots: SLOTS });
  for (let i = 0; i < total; i += 1) {
    const slot = loanSpinning(writer);
    const { bytes } = slot;
    bytes.fill(i % 128, 0, EDGE_BYTES);
    bytes.fill(i % 128, byteLength - EDGE_BYTES);
    setNumber(bytes, i);
    slot.commit();
  }
}

await (isFirst ? read() : write());
await pair.end();
