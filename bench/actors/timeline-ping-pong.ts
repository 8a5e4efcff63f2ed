// Two processes, stream to stream: the first signals its timeline and waits for the second's, which
// waits and then signals. The CPUs enqueue at most WINDOW round trips ahead. A sample is the mean
// of CHUNK round trips. The same loop in C: bench/c/timeline-ping-pong.c
import {
  finish,
  isFirst,
  openDevice,
  Peer,
  pumpOf,
  Samples,
  spinUntil,
  total,
  warmUp,
} from "./actor.js";

const WINDOW = 64;
const CHUNK = 64;

const device = openDevice();
const stream = device.createStream();
const other = new Peer();
const { own, peer } = other.exchangeTimelines(device);
const pump = pumpOf(stream);

function first(): void {
  const samples = new Samples();
  let startMs = 0;
  for (let i = 1; i <= total; i += 1) {
    if (i > WINDOW) spinUntil(peer, i - WINDOW, pump);
    if (i % CHUNK === 0) {
      const nowMs = performance.now();
      if (startMs !== 0) samples.add(((nowMs - startMs) * 1000) / CHUNK);
      startMs = i > warmUp ? nowMs : 0;
    }
    stream.signal(own, i);
    stream.wait(peer, i);
  }
  spinUntil(peer, total, pump);
  finish(stream);
  samples.print("timeline-ping-pong");
}

function second(): void {
  for (let i = 1; i <= total; i += 1) {
    if (i > WINDOW) spinUntil(peer, i - WINDOW, pump);
    stream.wait(peer, i);
    stream.signal(own, i);
  }
  spinUntil(own, total, pump);
  finish(stream);
}

if (isFirst) first();
else second();
// A timeline ends when it is closed, and the other process may still read it.
other.meet();
for (const it of [stream, own, peer, device]) it.close();
