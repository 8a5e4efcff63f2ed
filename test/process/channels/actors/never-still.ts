// Creates a drop-oldest channel. When told, it changes the channel's words without a pause until it
// is killed, as a writer that passes over each slot. WHY most slots: a reader takes longer for one
// round than this writer does, even if the writer gets a twentieth of a CPU. Arguments: socket, name.
import { fstatSync, readdirSync, readlinkSync, readSync } from "node:fs";
import { limits } from "../../../../src/base/limits.js";
import { connect } from "../../../../src/client/connect.js";
import { Mapping } from "../../../../src/os/mapping.js";
import { OwnedFd } from "../../../../src/os/owned-fd.js";
import { control, HEADERS_AT, header, MAGIC } from "../../../../src/ring/channel-layout.js";
import { argument, say, told } from "../../../support/actor-side.js";

const SLOTS = limits.channelSlotsMax;
/** Positions that the writer claims at a time. */
const CLAIMED = 256;

const [socket, name] = [0, 1].map(argument) as [string, string];
const hub = await connect({ socket, start: false, device: "host" });
await hub.createChannel(name, {
  ...{ byteLength: 8, slots: SLOTS, metaBytesMax: 0, whenFull: "drop-oldest" },
  sharing: { machines: true },
});
const words = controlWords();
const stride = new Uint32Array(words.buffer)[control.headerStride / 4] as number;
let written = 0;
say("created");
await told();
write();
say("spins");
for (;;) write();

function write(): void {
  Atomics.store(words, control.limit / 8, BigInt(written + CLAIMED));
  for (let i = 0; i < CLAIMED; i += 1) {
    const at = HEADERS_AT + (written % SLOTS) * stride + header.passedOver;
    written += 1;
    words[at / 8] = BigInt(written);
  }
  Atomics.store(words, control.published / 8, BigInt(written));
}

/** The control file of the channel, mapped once more. */
function controlWords(): BigInt64Array {
  for (const fd of readdirSync("/proc/self/fd").map(Number)) {
    const magic = new Uint32Array(2);
    try {
      if (!readlinkSync(`/proc/self/fd/${fd}`).startsWith("/memfd:")) continue;
      readSync(fd, new Uint8Array(magic.buffer), 0, 8, 0);
    } catch {
      // The descriptor of the folder itself, which is closed by now.
      continue;
    }
    if (magic[0] !== MAGIC[0] || magic[1] !== MAGIC[1]) continue;
    const byteLength = fstatSync(fd).size;
    const mapping = Mapping.shared(new OwnedFd(fd), byteLength, "read-write");
    return new BigInt64Array(mapping.view(0, byteLength).buffer);
  }
  throw new Error("there is no control file");
}
