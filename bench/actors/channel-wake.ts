// A sleeping reader is woken by its bell. A sample is the time from before the commit until the
// other process has the message, on the clock that both share. The writer pauses in between, so
// that the reader sleeps. The same loop in C: bench/c/channel-wake.c
import { monotonicMs } from "../hub/monotonic.js";
import { isFirst, Samples, total, warmUp } from "./actor.js";
import { ChannelPair, loanSpinning, MESSAGE_BYTES } from "./channel-side.js";

const SLOTS = 16;
const PAUSE_MS = 0.5;

const pair = await ChannelPair.connect();

async function read(): Promise<void> {
  const [reader] = await pair.open({ spinMs: 0 });
  const samples = new Samples();
  for (let i = 1; i <= total; i += 1) {
    const slot = await reader.next();
    const nowMs = monotonicMs();
    if (slot === undefined) throw new Error(`The channel ended before message ${i}`);
    const { buffer, byteOffset } = slot.bytes;
    const sentMs = new Float64Array(buffer, byteOffset, 1)[0] as number;
    slot.release();
    if (i > warmUp) samples.add((nowMs - sentMs) * 1000);
  }
  samples.print("channel-wake");
}

async function write(): Promise<void> {
  const writer = await pair.create({ dtype: "uint8", shape: [MESSAGE_BYTES], slots: SLOTS });
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  for (let i = 1; i <= total; i += 1) {
    Atomics.wait(nothing, 0, 0, PAUSE_MS);
    const slot = loanSpinning(writer);
    const { buffer, byteOffset } = slot.bytes;
    new Float64Array(buffer, byteOffset, 1)[0] = monotonicMs();
    slot.commit();
  }
}

await (isFirst ? read() : write());
await pair.end();
