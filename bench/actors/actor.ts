/**
 * Common code of all actors: arguments (DEVICE ITERATIONS ROLE), the other process, waits with a
 * timeout, and samples, which they print like the programs in bench/c. Waits spin, like those in C,
 * because no actor needs its event loop meanwhile.
 */

import { Device } from "../../src/gpu/device.js";
import type { AnyTimeline } from "../../src/gpu/order/any-timeline.js";
import type { Stream } from "../../src/gpu/order/stream.js";
import type { ImportedTimeline, Timeline } from "../../src/gpu/order/timeline.js";
import { OwnedFd } from "../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../src/os/seqpacket.js";

/** The timeout of waits for the other process or a GPU. */
const LIMIT_MS = 20_000;
/** Single calls are too short to time, so this many make one sample. */
const CALLS_PER_SAMPLE = 64;

export const [deviceName = "", iterationsText = "", role = ""] = process.argv.slice(2);

/** Further arguments of a benchmark's actors. */
export const extra = process.argv.slice(5);
export const isFirst = role === "first";
export const iterations = Number(iterationsText);
export const warmUp = Math.floor(iterations / 10) + 1;
export const total = warmUp + iterations;

export function openDevice(): Device {
  return Device.open(deviceName);
}

/** A spinning wait calls `check` in each round. It reads the clock only now and then. */
export class Limit {
  readonly #what: string;
  #asked = 0;
  #endMs = 0;

  constructor(what: string) {
    this.#what = what;
  }

  check(): void {
    this.#asked += 1;
    if (this.#asked % 1024 !== 0) return;
    if (this.#endMs === 0) this.#endMs = performance.now() + LIMIT_MS;
    else if (performance.now() > this.#endMs)
      throw new Error(`Timed out after ${LIMIT_MS} ms: ${this.#what}`);
  }
}

/** @param pump a stream of the host device, which advances only when it is polled; see `pumpOf` */
export function spinUntil(timeline: AnyTimeline, value: number, pump?: Stream): void {
  const limit = new Limit(`value ${value} of the other process`);
  while (!timeline.reached(value)) {
    if (pump !== undefined) pump.isIdle();
    limit.check();
  }
}

/** Returns the stream if it must be polled, because no GPU does its work. */
export function pumpOf(stream: Stream): Stream | undefined {
  return stream.device.cpuVisible ? stream : undefined;
}

export function finish(stream: Stream): void {
  const limit = new Limit("the stream is idle");
  while (!stream.isIdle()) limit.check();
}

export interface Message {
  readonly bytes: Uint8Array;
  readonly fds: readonly OwnedFd[];
}

/** The other process, behind descriptor 3. */
export class Peer {
  readonly #socket = new SeqpacketSocket(new OwnedFd(3));

  send(bytes: Uint8Array, fds: readonly OwnedFd[] = []): void {
    if (!this.#socket.trySend(bytes, fds)) throw new Error("The other process does not read");
  }

  sendJson(value: unknown, fds: readonly OwnedFd[] = []): void {
    this.send(Buffer.from(JSON.stringify(value)), fds);
  }

  /** @param pump a stream of the host device that must advance meanwhile */
  receive(pump?: Stream): Message {
    const limit = new Limit("a message of the other process");
    for (;;) {
      const packet = this.#socket.tryReceive();
      if (packet === "end") throw new Error("The other process hung up");
      if (packet?.damage !== undefined) throw packet.damage;
      if (packet !== undefined) return packet;
      if (pump !== undefined) pump.isIdle();
      limit.check();
    }
  }

  receiveJson(): unknown {
    return JSON.parse(Buffer.from(this.receive().bytes).toString());
  }

  /** Exchanges timelines with the other process, and registers both with this device. */
  exchangeTimelines(device: Device): { readonly own: Timeline; readonly peer: ImportedTimeline } {
    const own = device.createTimeline({ label: "own" });
    own.prepare(device);
    const fd = own.exportFd();
    this.sendJson(own.place, [fd]);
    fd.close();
    const { bytes, fds } = this.receive();
    const [theirs] = fds;
    if (theirs === undefined) throw new Error("The other process sent no descriptor");
    const peer = device.importTimeline(theirs, JSON.parse(Buffer.from(bytes).toString()), {
      label: "the other's",
    });
    theirs.close();
    peer.prepare(device);
    this.meet();
    return { own, peer };
  }

  /** A barrier: returns when both processes have called it. */
  meet(pump?: Stream): void {
    this.sendJson("here");
    this.receive(pump);
  }
}

export class Samples {
  readonly #us: number[] = [];

  add(us: number): void {
    this.#us.push(us);
  }

  print(name: string): void {
    const sorted = Float64Array.from(this.#us).sort();
    const at = (share: number) => sorted[Math.floor(sorted.length * share)];
    const mean = this.#us.reduce((sum, us) => sum + us, 0) / sorted.length;
    process.stdout.write(
      `${JSON.stringify({ name, iterations, us: { p50: at(0.5), p99: at(0.99), mean } })}\n`,
    );
  }
}

/**
 * Times calls that are too short to time alone.
 * @param between called after each sample, not timed
 */
export function timeCalls(name: string, call: () => void, between: () => void = () => {}): void {
  const samples = new Samples();
  for (let done = -warmUp; done < iterations; done += CALLS_PER_SAMPLE) {
    const startMs = performance.now();
    for (let i = 0; i < CALLS_PER_SAMPLE; i += 1) call();
    const endMs = performance.now();
    between();
    if (done >= 0) samples.add(((endMs - startMs) * 1000) / CALLS_PER_SAMPLE);
  }
  samples.print(name);
}
