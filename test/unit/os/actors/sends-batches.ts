// Sends 10,500 descriptors in 101 items over descriptor 3, as a user who may have few open, with others under way at first.
import assert from "node:assert/strict";
import { Deadline } from "../../../../src/base/deadline.js";
import { SystemError } from "../../../../src/base/errors.js";
import { releaseAll } from "../../../../src/base/scope.js";
import { sendBatches } from "../../../../src/os/fd-batches.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import { OwnedFd } from "../../../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";

const OTHER_UID = 12_345;
const [one, other] = SeqpacketSocket.pair();
using file = createMemoryFile("test", 4096);
process.setuid?.(OTHER_UID);

const ownWay = { fds: 0 };
const refused = fill();
assert.ok(refused instanceof SystemError && refused.errnoName === "ETOOMANYREFS", String(refused));

const socket = new SeqpacketSocket(OwnedFd.adopt(3));
const items = Array.from({ length: 101 }, (_, i) => ({
  bytes: Buffer.from(`item ${i}`),
  fds: new Array<OwnedFd>(i === 0 ? 500 : 100).fill(file),
}));
const sending = sendBatches(socket, items, new Deadline("send", {}, 30_000));
// WHY later: until then the first descriptors are refused.
setTimeout(receiveOwn, 100);
await sending;
for (const each of [socket, one, other]) each.close();

/** Sends to itself until the system refuses more. */
function fill(): unknown {
  try {
    while (one.trySend(Buffer.from("x"), new Array<OwnedFd>(40).fill(file))) ownWay.fds += 40;
    return undefined;
  } catch (error) {
    return error;
  }
}

function receiveOwn(): void {
  while (ownWay.fds > 0) {
    const packet = other.tryReceive();
    if (packet === undefined || packet === "end") throw new Error(`received ${String(packet)}`);
    releaseAll(packet.fds.map((fd) => () => fd.close()));
    ownWay.fds -= 40;
  }
}
