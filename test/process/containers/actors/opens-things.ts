// Opens what is shared without a hub, and prints the contents or the error. On each command it asks
// for more of the growing memory and waits for the timeline. It repeats both after the exporter's
// death. Arguments: the documents.
import { CudaIpcError } from "../../../../src/base/errors.js";
import { openShared } from "../../../../src/doors/peer.js";
import { Device } from "../../../../src/gpu/device.js";
import { argument, say, told } from "../../../support/actor-side.js";

const documents = JSON.parse(argument(0)) as Record<string, unknown>;
using device = Device.open("host");

async function attempt(open: () => unknown): Promise<unknown> {
  try {
    return await open();
  } catch (error) {
    return error instanceof CudaIpcError ? error.code : String(error);
  }
}

using pooled = (await openShared(documents.pooled, { device, access: "read-write" })).expectDType(
  "float32",
);
using followed = await openShared(documents.growing, { kind: "growing", device });
using timeline = await openShared(documents.timeline, { kind: "timeline", device });
say({
  pooled: (await pooled.read())[999],
  growing: followed.buffer.byteLength,
  legacy: await attempt(() => openShared(documents.legacy)),
  event: await attempt(() => openShared(documents.event, { kind: "event", device })),
});
await told();
say(await followed.follow());
await timeline.wait(1);
say("signalled");
say(await attempt(() => timeline.wait(2)));
await told();
say(await attempt(() => followed.follow()));
say(await attempt(() => openShared(documents.pooled)));
say((await pooled.read())[1]);
