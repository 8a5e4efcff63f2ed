// Creates and publishes an array of float32 `i + 100`. Reports the object, its pid, and each return
// to a hub.
import { connect } from "../../../../src/client/connect.js";
import type { Lifetime } from "../../../../src/wire/messages.js";
import { argument, say, told } from "../../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), hubIdleMs: 60_000, device: "host" });
hub.onReconnect(({ resumed }) => say({ resumed }));
using array = await hub.create(argument(1), {
  dtype: "float32",
  shape: [256],
  lifetime: argument(2) as Lifetime,
});
await array.write(Float32Array.from({ length: 256 }, (_, i) => i + 100));
await array.publish();
say({ object: array.object, pid: process.pid });
await told();
