// Messages of 64 bytes, one way through zeromq (PAIR) over ipc, like channel-throughput.ts does
// through a channel. A sample is the mean of CHUNK messages, at the reader.
import { Pair } from "zeromq";
import { isFirst, Peer, Samples, total, warmUp } from "./actor.js";

const CHUNK = 1024;
const MESSAGE_BYTES = 64;
const LAST_WORD = MESSAGE_BYTES - 4;
const ADDRESS = `ipc://@cuda-ipc-bench-${process.ppid}`;

// The fastest number of messages in flight.
const socket = new Pair({ sendHighWaterMark: 20_000, receiveHighWaterMark: 20_000 });
if (isFirst) await socket.bind(ADDRESS);
new Peer().meet();

async function read(): Promise<void> {
  const samples = new Samples();
  let startMs = 0;
  for (let i = 0; i < total; i += 1) {
    const [message] = await socket.receive();
    const [first, last] = [message?.readUInt32LE(0), message?.readUInt32LE(LAST_WORD)];
    if (first !== i || last !== i) throw new Error(`Message ${i} says ${first} and ${last}`);
    if ((i + 1) % CHUNK !== 0) continue;
    const nowMs = performance.now();
    if (startMs !== 0) samples.add(((nowMs - startMs) * 1000) / CHUNK);
    startMs = i >= warmUp ? nowMs : 0;
  }
  samples.print("zeromq-throughput");
  await socket.send("all received");
}

async function write(): Promise<void> {
  socket.connect(ADDRESS);
  // zeromq copies messages of this small size.
  const message = Buffer.alloc(MESSAGE_BYTES);
  for (let i = 0; i < total; i += 1) {
    message.writeUInt32LE(i, 0);
    message.writeUInt32LE(i, LAST_WORD);
    await socket.send(message);
  }
  // Messages in flight would be lost with this process.
  await socket.receive();
}

await (isFirst ? read() : write());
socket.close();
