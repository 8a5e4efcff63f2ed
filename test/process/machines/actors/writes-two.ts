// Creates a channel, writes two messages when told, and waits to be killed.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), device: "host" });
using writer = await hub.createChannel(argument(1), { byteLength: 8 });
say({});
await told();
for (let i = 0; i < 2; i += 1) (await writer.loan()).commit();
await told();
