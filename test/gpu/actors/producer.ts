/**
 * Creates and publishes an array of the given bytes on cuda:0, prints that, and waits to be killed.
 */
import { connect } from "../../../src/index.js";

const [socket = "", name = "", byteLength = "0"] = process.argv.slice(2);
const hub = await connect({ socket, start: false, device: "cuda:0" });
const array = await hub.create(name, { dtype: "uint8", shape: [Number(byteLength)] });
await array.clear();
await array.publish();
process.send?.("published");
