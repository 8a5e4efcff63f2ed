// Joins the hub on command, or starts one, and prints the hub's pid. Leaves on the next command.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

say("here");
await told();
await using hub = await connect({
  socket: argument(0),
  hubIdleMs: Number(argument(1)),
  device: "host",
});
const { pid, instance } = await hub.status();
say({ pid, instance });
await told();
