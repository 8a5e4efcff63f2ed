// Opens an array for writing, prints the bits of its values, negates them on request, and holds it
// until it is told to end.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), start: false, device: "host" });
using array = (await hub.open(argument(1), { access: "read-write" })).expectDType("float32");
const values = await array.read();
say({ bits: Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64") });
await told();
await array.write(values.map((_, i) => i * -1));
say("written");
await told();
