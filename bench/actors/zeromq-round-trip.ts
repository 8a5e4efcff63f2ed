// A message of 64 bytes goes to another process and back through zeromq (PAIR) over ipc, like
// channel-round-trip.ts does through channels. A sample is one round trip.
import { Pair } from "zeromq";
import { isFirst, Peer, Samples, total, warmUp } from "./actor.js";

const MESSAGE_BYTES = 64;
const ADDRESS = `ipc://@cuda-ipc-bench-${process.ppid}`;

const socket = new Pair();
if (isFirst) await socket.bind(ADDRESS);
new Peer().meet();

async function ask(): Promise<void> {
  const samples = new Samples();
  const message = Buffer.alloc(MESSAGE_BYTES);
  for (let i = 1; i <= total; i += 1) {
    const startMs = performance.now();
    message.writeUInt32LE(i, 0);
    await socket.send(message);
    const [answer] = await socket.receive();
    if (i > warmUp) samples.add((performance.now() - startMs) * 1000);
    if (answer?.readUInt32LE(0) !== i)
      throw new Error(`Answer ${answer?.readUInt32LE(0)}, wanted ${i}`);
  }
  samples.print("zeromq-round-trip");
}

async function answer(): Promise<void> {
  socket.connect(ADDRESS);
  for (let i = 1; i <= total; i += 1) {
    const [message] = await socket.receive();
    await socket.send(message as Buffer);
  }
}

await (isFirst ? ask() : answer());
socket.close();
