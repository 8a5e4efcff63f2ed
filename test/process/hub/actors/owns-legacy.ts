// Creates an array in legacy memory, publishes it, and holds it until it is killed.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [socket, name] = [0, 1].map(argument) as [string, string];
await using hub = await connect({ socket, start: false, device: "host" });
const options = { dtype: "int32", shape: [3], mechanism: "legacy" } as const;
using array = await hub.create(name, options);
await array.write(Int32Array.of(1, 2, 3));
await array.publish();
say(array.buffer.mechanism);
await told();
