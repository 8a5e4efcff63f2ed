/**
 * Writes ten messages to a channel that ends with a killed writer, and waits to be killed.
 * Arguments: socket, name.
 */
import { connect } from "../../../../src/index.js";

const [socket = "", name = ""] = process.argv.slice(2);
const hub = await connect({ socket, device: "host" });
const writer = await hub.createChannel(name, { byteLength: 100, slots: 16 });
for (let sequence = 0; sequence < 10; sequence += 1) {
  using slot = await writer.loan();
  slot.bytes.fill(sequence % 251);
  slot.commit({ meta: sequence });
}
// Loaned and never committed, so no reader may see it.
const slot = await writer.loan();
slot.bytes.fill(77);
process.send?.("written");
