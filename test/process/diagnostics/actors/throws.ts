/** A process whose subscribers throw. It reports what happened. Argument 0 is the hub's socket. */
import { subscribe } from "node:diagnostics_channel";
import { connect } from "../../../../src/index.js";
import { argument, say } from "../../../support/actor-side.js";

const uncaught: string[] = [];
process.on("uncaughtException", (error) => uncaught.push(error.message));
for (const name of ["tracing:cuda-ipc:connect:start", "cuda-ipc:commit", "cuda-ipc:receive"]) {
  subscribe(name, () => {
    throw new Error(name);
  });
}

await using hub = await connect({ socket: argument(0), start: false, device: "host" });
using writer = await hub.createChannel("throws", { byteLength: 64 });
using reader = await hub.openChannel("throws");
using slot = await writer.loan();
slot.commit();
using received = await reader.next();
await new Promise((resolve) => setImmediate(resolve));
say({ sequence: received?.sequence, uncaught });
