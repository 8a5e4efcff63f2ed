// Opens one thing and ends without closing it. At the very end, when no callback can run, its
// watched descriptors become ready. Arguments: what to open, and `process` or `thread` to open it
// in. Some things also need a socket's path and the pid of the peer.
import { spawn } from "node:child_process";
import { writeSync } from "node:fs";
import { isMainThread, Worker } from "node:worker_threads";
import { Deadline } from "../../../../src/base/deadline.js";
import { BellWatch } from "../../../../src/channel/bell-watch.js";
import { GrowingArray, MemoryPool } from "../../../../src/doors/interop.js";
import { Group, offer, openShared, share } from "../../../../src/doors/peer.js";
import { libc } from "../../../../src/ffi/libc.js";
import { connect, Device, DeviceArray } from "../../../../src/index.js";
import { createBell, ringBell } from "../../../../src/os/bell.js";
import { FdWatch } from "../../../../src/os/fd-watch.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import { PacketChannel } from "../../../../src/os/packet-channel.js";
import { openPidfd, ProcessWatch } from "../../../../src/os/process-watch.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";

/** Makes the watched descriptors ready without a turn of the event loop. */
type Stir = () => void;

const [what = "", where, path = "", pid] = process.argv.slice(2);
const POLLIN = 1;
/** Keeps a process alive until it is told to end. */
const KEEPS_ALIVE = ["a bell for which it waits", "an offer", "its connection to a hub"];
const kept: unknown[] = [];
const FOR_EVER = new Deadline("hear a bell", {}, Number.POSITIVE_INFINITY);

const things: Record<string, () => Stir | Promise<Stir>> = {
  "a watch of a descriptor": () => {
    const [one, other] = SeqpacketSocket.pair();
    watch(one.fd);
    return () => other.trySend(Buffer.from("x"));
  },
  "a watch that was begun at the very end": () => {
    const [one, other] = SeqpacketSocket.pair();
    // WHY two: the first one ends before this listener runs, the second one after it.
    watch(one.fd);
    const [late, sender] = SeqpacketSocket.pair();
    sender.trySend(Buffer.from("x"));
    process.on("exit", () => watch(late.fd));
    return () => other.trySend(Buffer.from("x"));
  },
  "a watch of a process": () => {
    const child = spawn("sleep", ["1000"], { stdio: "ignore" });
    child.unref();
    kept.push(new ProcessWatch(openPidfd(child.pid as number) as OwnedFd, () => {}));
    return () => kill(child.pid as number);
  },
  "a bell that it has heard": async () => {
    const { bell, watch } = bellWatch();
    ringBell(bell);
    await watch.heard(FOR_EVER);
    return () => ringBell(bell);
  },
  "a bell that is silent again": async () => {
    const { bell, watch } = bellWatch();
    ringBell(bell);
    await watch.heard(FOR_EVER);
    await watch.heard(FOR_EVER);
    return () => ringBell(bell);
  },
  "a bell for which it has given up waiting": async () => {
    const { bell, watch } = bellWatch();
    await watch.heard(new Deadline("hear a bell", { timeoutMs: 1 }, 1)).catch(() => {});
    return () => ringBell(bell);
  },
  "a bell for which it waits": () => {
    const { bell, watch } = bellWatch();
    kept.push(watch.heard(FOR_EVER));
    return () => ringBell(bell);
  },
  "a connection": () => {
    const [one, other] = SeqpacketSocket.pair();
    const channel = new PacketChannel(one, { onPacket: () => {}, onEnd: () => {} });
    channel.setReferenced(false);
    kept.push(channel);
    return () => other.close();
  },
  "what it shares": () => {
    const { document } = share(array());
    return () => kept.push(SeqpacketSocket.connect(document.fds.socket));
  },
  "what it opened": async () => {
    kept.push(await openShared(share(array()).document));
    return () => {};
  },
  "an offer": () => {
    kept.push(offer(path, array()));
    return () => kept.push(SeqpacketSocket.connect(path));
  },
  "a group": async () => {
    kept.push(await Group.join({ path, rank: 0, size: 2 }));
    return () => kill(Number(pid));
  },
  "its connection to a hub": async () => {
    const hub = await connect({ socket: path, start: false, device: "host" });
    const frame = await hub.create("frame", { dtype: "uint8", shape: [3] });
    await frame.publish();
    kept.push(hub, frame, await hub.open("frame"), await hub.createTimeline("steps"));
    return () => kill(Number(pid));
  },
  "a timeline that a stream waits for": () => {
    const device = Device.open("host");
    const [timeline, stream] = [device.createTimeline(), device.createStream()];
    stream.wait(timeline, 1n);
    kept.push(timeline, stream);
    return () => timeline.signal(1n);
  },
  "a pool": () => {
    const pool = MemoryPool.create(Device.open("host"), { maxBytes: 1 << 20, shared: true });
    kept.push(pool, pool.allocateArray({ dtype: "int32", shape: [4] }).view());
    return () => {};
  },
  "an event that is recorded": () => {
    const device = Device.open("host");
    const [event, stream] = [device.createEvent(), device.createStream()];
    event.record(stream);
    kept.push(event, stream);
    return () => {};
  },
  "memory that grows": async () => {
    const growing = GrowingArray.create(Device.open("host"), {
      dtype: "int32",
      shape: [0],
      maxLength: 1 << 20,
    });
    await growing.append(new Int32Array(4));
    kept.push(growing);
    return () => {};
  },
};

function watch(fd: OwnedFd): void {
  const made = new FdWatch(fd, () => {});
  made.setReferenced(false);
  kept.push(made);
}

function bellWatch(): { bell: OwnedFd; watch: BellWatch } {
  const bell = createBell();
  const watch = new BellWatch(bell.duplicate());
  kept.push(bell, watch);
  return { bell, watch };
}

function array(): DeviceArray<"int32"> {
  return DeviceArray.allocate(Device.open("host"), { dtype: "int32", shape: [4] });
}

/** Returns when the process has ended and all its connections have hung up. */
function kill(pid: number): void {
  const pidfd = openPidfd(pid) as OwnedFd;
  process.kill(pid, "SIGKILL");
  const entry = new Uint8Array(8);
  const view = new DataView(entry.buffer);
  view.setInt32(0, pidfd.number, true);
  view.setInt16(4, POLLIN, true);
  if (libc().poll(entry, 1, 30_000) !== 1) throw new Error(`process ${pid} has not ended`);
}

if (isMainThread && where === "thread") {
  new Worker(new URL(import.meta.url), { argv: process.argv.slice(2) });
} else {
  // WHY before the thing is opened: this listener must run before any of the project's.
  let stir: Stir | undefined;
  process.on("exit", () => {
    stir?.();
    writeSync(1, `${JSON.stringify(stir === undefined ? "not open" : "stirred")}\n`);
  });
  stir = await things[what]?.();
  if (KEEPS_ALIVE.includes(what)) process.exit(0);
}
