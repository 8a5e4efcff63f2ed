/**
 * Creates an array on cuda:0 whose element i is `i * 3 + seed`, publishes it as pinned, and ends.
 * Arguments: socket, name, elements, seed.
 */
import { connect } from "../../../src/index.js";
import { argument, say } from "../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), start: false, device: "cuda:0" });
const [name, elements, seed] = [argument(1), Number(argument(2)), Number(argument(3))];
using array = await hub.create(name, { dtype: "int32", shape: [elements], lifetime: "pinned" });
await array.write(Int32Array.from({ length: elements }, (_, i) => i * 3 + seed));
await array.publish();
say("published");
