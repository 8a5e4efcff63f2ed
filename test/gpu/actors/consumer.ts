/**
 * Opens an array by name, verifies that element i is `i * 3 + seed`, writes `-element` back if
 * asked, and prints what it found.
 */
import { connect } from "../../../src/index.js";

const [socket = "", name = "", seed = "0", access = "read"] = process.argv.slice(2);
await using hub = await connect({ socket, start: false });
using array = (
  await hub.open(name, { access: access === "read" ? "read" : "read-write", timeoutMs: 30_000 })
).expectDType("int32");
const values = await array.read();
const wrong = values.findIndex((value, index) => value !== index * 3 + Number(seed));
if (access !== "read") await array.write(values.map((value) => -value));
process.send?.({
  wrong,
  count: values.length,
  mechanism: array.buffer.mechanism,
  device: array.device.name,
});
