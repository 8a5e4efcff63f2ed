// Creates a timeline, signals up to a value, and reports it. Holds the timeline until the next
// command, and then closes it.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

const [socket, name, value] = [0, 1, 2].map(argument) as [string, string, string];
const whenOwnerGone = process.argv.at(5) === "wait" ? "wait" : "end";
await using hub = await connect({ socket, start: false, device: "host" });
using timeline = await hub.createTimeline(name, { whenOwnerGone });
timeline.signal(BigInt(value));
say({ value });
await told();
