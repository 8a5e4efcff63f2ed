// Joins many times and reports it. Reports again when all of them have returned to a hub. Starts
// hubs with the named program.
import { connect } from "../../../../src/client/connect.js";
import { argument, say, told } from "../../../support/actor-side.js";

process.execPath = argument(2);
const hubs = await Promise.all(
  Array.from({ length: Number(argument(1)) }, () =>
    connect({ socket: argument(0), hubIdleMs: 60_000, device: "host" }),
  ),
);
const back = Promise.all(
  hubs.map((hub) => new Promise<unknown>((resolve) => hub.onReconnect(resolve))),
);
say("joined");
await back;
say("came back");
await told();
for (const hub of hubs) await hub.close();
