// Two processes with an event each: one records its event and sends a message, and the other's
// stream waits for it. Then the same way back. A sample is one round trip, until the first stream
// is idle. The same loop in C: bench/c/event-ping-pong.c
import { Event } from "../../src/gpu/order/event.js";
import { finish, isFirst, openDevice, Peer, pumpOf, Samples, total, warmUp } from "./actor.js";

const device = openDevice();
const stream = device.createStream();
const pump = pumpOf(stream);
const other = new Peer();
const own = device.createEvent({ label: "own" });
// WHY before the export: a stream does not wait for an unrecorded event. Later, numbers are enough.
own.record(stream);
finish(stream);
other.sendJson(own.export());
const peer = Event.import(device, other.receiveJson(), { label: "the other's" });
const round = new Uint8Array(4);
const roundView = new DataView(round.buffer);

function first(): void {
  const samples = new Samples();
  for (let i = 1; i <= total; i += 1) {
    const startMs = performance.now();
    own.record(stream);
    roundView.setUint32(0, i);
    other.send(round);
    const { bytes } = other.receive(pump);
    if (new DataView(bytes.buffer).getUint32(0) !== i)
      throw new Error(`An answer to another round than ${i}`);
    stream.wait(peer);
    finish(stream);
    if (i > warmUp) samples.add((performance.now() - startMs) * 1000);
  }
  samples.print("event-ping-pong");
}

function second(): void {
  for (let i = 1; i <= total; i += 1) {
    const { bytes } = other.receive(pump);
    stream.wait(peer);
    own.record(stream);
    other.send(bytes);
  }
}

if (isFirst) first();
else second();
// An event ends with its process, and the first process may still wait for the last event.
other.meet(pump);
for (const it of [stream, own, peer, device]) it.close();
