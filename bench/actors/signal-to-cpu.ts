// The stream of one process signals a timeline. The CPU of another spins on it and signals back,
// and the first CPU spins on that. A sample is one round trip. The same loop in C:
// bench/c/signal-to-cpu.c
import { finish, isFirst, openDevice, Peer, Samples, spinUntil, total, warmUp } from "./actor.js";

const device = openDevice();
const stream = device.createStream();
const other = new Peer();
const { own, peer } = other.exchangeTimelines(device);

function first(): void {
  const samples = new Samples();
  for (let i = 1; i <= total; i += 1) {
    const startMs = performance.now();
    stream.signal(own, i);
    spinUntil(peer, i);
    if (i > warmUp) samples.add((performance.now() - startMs) * 1000);
  }
  finish(stream);
  samples.print("signal-to-cpu");
}

function second(): void {
  for (let i = 1; i <= total; i += 1) {
    spinUntil(peer, i);
    own.signal(i);
  }
}

if (isFirst) first();
else second();
other.meet();
for (const it of [stream, own, peer, device]) it.close();
