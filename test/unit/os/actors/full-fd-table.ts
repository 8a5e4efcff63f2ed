// Receives four descriptors with room for two, and reports the result. Run it with a low limit of
// open files.
import { openSync, readdirSync } from "node:fs";
import { createBell } from "../../../../src/os/bell.js";
import { OwnedFd, openFdCount } from "../../../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";

const [one, other] = SeqpacketSocket.pair();
using fd = createBell();
one.trySend(Buffer.from("hello"), [fd, fd, fd, fd]);
const fillers: OwnedFd[] = [];
try {
  for (;;) fillers.push(new OwnedFd(openSync("/dev/null", "r")));
} catch {
  // The table is full, as wanted.
}
fillers.pop()?.close();
fillers.pop()?.close();
const before = openFdCount();
const packet = other.tryReceive();
const left = openFdCount() - before;
for (const filler of fillers) filler.close();
readdirSync("/proc/self/fd");
if (packet === undefined || packet === "end") throw new Error(`received ${String(packet)}`);
const { bytes, damage, fds } = packet;
process.stdout.write(
  JSON.stringify({
    code: damage?.code,
    fds: fds.length,
    bytes: Buffer.from(bytes).toString(),
    left,
  }),
);
