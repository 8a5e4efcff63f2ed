/** Writes ten messages to a channel that a killed writer ends, and waits to be killed: writes-channel.js SOCKET NAME. */
import { connect } from "../../../../src/index.js";

const [socket = "", name = ""] = process.argv.slice(2);
const hub = await connect({ socket, device: "host" });
const writer = await hub.createChannel(name, { byteLength: 100, slots: 16 });
for (let sequence = 0; sequence < 10; sequence += 1) {
  using slot = await writer.loan();
  slot.bytes.fill(sequence % 251);
  slot.commit({ meta: sequence });
}
// Lent and never committed: nobody is to see it.
const slot = await writer.loan();
slot.bytes.fill(77);
process.send?.("written");
