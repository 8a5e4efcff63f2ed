// Messages of 64 bytes from a writer to a reader in one thread: the cost of both sides, without any
// wait. Arguments after the role: the hub's socket, the door of the package to import, and the
// channels of node:diagnostics_channel to subscribe to, or "". A sample is the mean of CHUNK.
import { subscribe } from "node:diagnostics_channel";
import { extra, Samples, total, warmUp } from "./actor.js";

const CHUNK = 1024;

const [socket, door = "", watched = ""] = extra;
const { connect } = (await import(door)) as typeof import("../../src/index.js");
let heard = 0;
for (const name of watched.split(" ").filter((name) => name !== "")) {
  subscribe(name, () => {
    heard += 1;
  });
}

await using hub = await connect({ socket, start: false, device: "host" });
using writer = await hub.createChannel(`watched-${process.pid}`, { byteLength: 64 });
using reader = await hub.openChannel(`watched-${process.pid}`);
const samples = new Samples();
let startMs = performance.now();
for (let i = 0; i < total; i += 1) {
  const loaned = writer.tryLoan();
  if (loaned === undefined) throw new Error(`Message ${i} found no slot`);
  loaned.bytes[0] = i & 255;
  loaned.commit();
  const received = reader.tryNext();
  if (received?.bytes[0] !== (i & 255)) throw new Error(`Message ${i} did not come`);
  received.release();
  if ((i + 1) % CHUNK !== 0) continue;
  const nowMs = performance.now();
  if (i >= warmUp) samples.add(((nowMs - startMs) * 1000) / CHUNK);
  startMs = nowMs;
}
if (heard !== watched.split(" ").filter((name) => name !== "").length * total)
  throw new Error(`${heard} messages were heard`);
samples.print("channel-watched");
