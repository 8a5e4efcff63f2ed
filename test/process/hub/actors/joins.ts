// Waits for the word, joins the hub, starting one where none runs, and says which process it is; leaves when it is told to.
// Arguments: socket, idle time of a hub that it starts.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

say("here");
await told();
await using hub = await connect({ socket: argument(0), hubIdleMs: Number(argument(1)), device: "host" });
const { pid, instance } = await hub.status();
say({ pid, instance });
await told();
