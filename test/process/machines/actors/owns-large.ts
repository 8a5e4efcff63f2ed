// Owns an array of this many bytes, all 1 but the last, which is 77.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

const byteLength = Number(argument(1));
const values = new Uint8Array(byteLength).fill(1);
values[byteLength - 1] = 77;
await using hub = await connect({ socket: argument(0), device: "host" });
using _array = await hub.put("large", values);
say({});
await told();
