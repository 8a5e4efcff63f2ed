// Opens the objects of creates-all.ts, prints their contents, and waits for the timeline. Prints
// how its next wait ends, and what is left on the hub. Arguments: socket, device.

import { CudaIpcError } from "../../../../src/base/errors.js";
import { connect } from "../../../../src/client/connect.js";
import { argument, say } from "../../../support/actor-side.js";

await using hub = await connect({ socket: argument(0), start: false, device: argument(1) });
using pooled = (await hub.open("pooled", { access: "read-write" })).expectDType("int32");
using bundle = await hub.openBundle("bundle");
using pinned = (await hub.open("pinned")).expectDType("uint8");
using timeline = await hub.openTimeline("steps");
say({
  pooled: [(await pooled.read())[999], pooled.buffer.mechanism],
  bundle: [...(await bundle.array("b").expectDType("int64").read())].map(Number),
  metadata: bundle.metadata,
  pinned: [...(await pinned.read())],
  holders: (await hub.inspect("pooled")).holders.length,
});
await timeline.wait(5);
say("signalled");
await timeline
  .wait(6)
  .catch((error: unknown) => say(error instanceof CudaIpcError ? error.code : String(error)));
pooled.close();
bundle.close();
say((await hub.list()).map(({ name }) => name));
