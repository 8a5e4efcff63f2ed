// Creates one object of each kind on the hub: an array in a pool, a bundle, a pinned array, and a
// timeline that it signals on command. Reports them, and holds everything until the next command.
// Arguments: socket, device.
import { connect } from "../../../../src/client/connect.js";
import { MemoryPool } from "../../../../src/gpu/memory/memory-pool.js";
import { argument, say, told } from "../../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), start: false, device: argument(1) });
using pool = MemoryPool.create(hub.device(), { maxBytes: 1 << 20, shared: true });
using pooled = await hub.create("pooled", { dtype: "int32", shape: [1000], pool });
await pooled.write(Int32Array.from({ length: 1000 }, (_, i) => i));
await pooled.publish();
const layouts = { a: { dtype: "float32", shape: [2] }, b: { dtype: "int64", shape: [3] } } as const;
using bundle = await hub.createBundle("bundle", layouts, { metadata: { unit: "m" } });
await bundle.array("b").write([7n, 8n, 9n]);
await bundle.publish();
using pinned = await hub.create("pinned", { dtype: "uint8", shape: [3], lifetime: "pinned" });
await pinned.write([1, 2, 3]);
await pinned.publish();
using timeline = await hub.createTimeline("steps");
say("created");
await told();
timeline.signal(5);
await told();
