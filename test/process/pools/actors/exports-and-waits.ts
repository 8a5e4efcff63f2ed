// Sends a shared pool with one buffer, and growing memory, through the socket at descriptor 3. When
// told, it grows the memory and sends the new pieces. Then it waits to be killed.
import { setTimeout } from "node:timers/promises";
import { GrowingArray } from "../../../../src/gpu/arrays/growing-array.js";
import { Device } from "../../../../src/gpu/device.js";
import { MemoryPool } from "../../../../src/gpu/memory/memory-pool.js";
import { OwnedFd } from "../../../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { say, told } from "../../../support/actor-side.js";

const socket = new SeqpacketSocket(new OwnedFd(3));
function send(what: unknown, fds: readonly OwnedFd[]): void {
  socket.trySend(new TextEncoder().encode(JSON.stringify(what)), fds);
  for (const fd of fds) fd.close();
}

const device = Device.open();
const pool = MemoryPool.create(device, { maxBytes: 1 << 20, shared: true });
const array = pool.allocateArray({ dtype: "int32", shape: [1024] });
await array.write(new Int32Array(1024).map((_, i) => i + 100));
const exported = pool.export();
send({ pool: exported.descriptor, buffer: await pool.exportBuffer(array.buffer) }, [exported.fd]);

const growing = GrowingArray.create(device, { dtype: "int32", shape: [0], maxLength: 1 << 20 });
await growing.append(new Int32Array(1024).fill(1));
const first = growing.memory.export();
send(first.descriptor, first.fds);
say("sent");
await told();
await growing.append(new Int32Array(100_000).fill(2));
const more = growing.memory.exportGrowth(first.fds.length);
send(more.growth, more.fds);
say("grown");
await setTimeout(60_000);
array.close();
growing.close();
