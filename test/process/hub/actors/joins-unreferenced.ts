// Joins with an unreferenced connection and holds an array. After the next command it has nothing
// else to do. With the argument "late" it is unreferenced only then.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

const isLate = process.argv[3] === "late";
const hub = await connect({
  socket: argument(0),
  start: false,
  device: "host",
  reconnectTimeoutMs: 1_000_000,
});
const array = await hub.create("frame", { dtype: "uint8", shape: [1] });
if (!isLate) hub.unref();
say({ object: array.object });
await told();
if (isLate) hub.unref();
