// A worker of the service "affine" on a GPU: its stream computes 2 x + 1 of each request. A request
// can tell it to die. Arguments: socket, device.
import { serve } from "../../../src/doors/service.js";
import { connect, type DeviceArray } from "../../../src/index.js";
import { argument, say, told } from "../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), start: false, device: argument(1) });
using stream = hub.device().createStream();
const message = { dtype: "float32", shape: [65_536] } as const;
const options = { request: message, reply: message, depth: 2, stream } as const;
await using _service = await serve(hub, "affine", options, async (request, reply) => {
  if ((request.json as { die?: boolean } | undefined)?.die) process.kill(process.pid, "SIGKILL");
  const slot = await reply.loan();
  await slot.array.affine(2, 1, { from: request.array as DeviceArray<"float32">, stream });
  return { meta: { pid: process.pid } };
});
say("serves");
await told();
