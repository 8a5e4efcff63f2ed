/**
 * Shares an array on a hub, and dies, stops or loses its connections before its n-th system call.
 * Arguments: socket, how it ends, n.
 */
import { connect } from "../../../src/client/connect.js";
import { argument, say } from "../../support/actor-side.js";
import { actAtSystemCall, type SystemCallAction } from "../../support/system-calls.js";

const hub = await connect({ socket: argument(0), start: false, device: "host" });
using at = actAtSystemCall(Number(argument(2)), argument(1) as SystemCallAction);
let code: unknown = null;
try {
  const array = await hub.create("frame", { dtype: "int32", shape: [3] });
  await array.write(Int32Array.of(1, 2, 3));
  await array.publish();
  array.close();
  const timeline = await hub.createTimeline("steps");
  timeline.close();
  await hub.close();
} catch (error) {
  ({ code } = error as { code: unknown });
}
say({ code, hit: at.hit?.name ?? null });
process.exit(0);
