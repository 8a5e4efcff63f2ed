// Creates a drop-oldest channel of one slot. When told, it changes the channel's words without a
// pause until it is killed, as a writer that has always written one message more. Arguments:
// socket, name.
import { readdirSync, readlinkSync, readSync } from "node:fs";
import { connect } from "../../../../src/client/connect.js";
import { Mapping } from "../../../../src/os/mapping.js";
import { OwnedFd } from "../../../../src/os/owned-fd.js";
import { control, HEADERS_AT, header, MAGIC } from "../../../../src/ring/channel-layout.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [socket, name] = [0, 1].map(argument) as [string, string];
const hub = await connect({ socket, start: false, device: "host" });
const writer = await hub.createChannel(name, {
  ...{ byteLength: 64, slots: 1, whenFull: "drop-oldest" },
  sharing: { machines: true },
});
(await writer.loan()).commit();
const words = controlWords();
say("created");
await told();
let written = words[control.published / 8] as bigint;
write();
say("spins");
for (;;) write();

/** As after one more message. The next one is claimed already, so nobody may take this one. */
function write(): void {
  written += 1n;
  Atomics.store(words, control.published / 8, written);
  Atomics.store(words, control.limit / 8, written + 1n);
  Atomics.store(words, (HEADERS_AT + header.generation) / 8, written);
}

/** The control file of the channel, mapped once more. */
function controlWords(): BigInt64Array {
  const byteLength = HEADERS_AT + header.meta;
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
    const mapping = Mapping.shared(new OwnedFd(fd), byteLength, "read-write");
    return new BigInt64Array(mapping.view(0, byteLength).buffer);
  }
  throw new Error("there is no control file");
}
