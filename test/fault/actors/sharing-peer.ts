/**
 * The other process. On `share` it shares an array and prints the document. On a document it opens
 * that array and reports the result.
 */
import { CudaIpcError } from "../../../src/base/errors.js";
import { openShared, share } from "../../../src/doors/peer.js";
import { DeviceArray } from "../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../src/index.js";
import { say, told } from "../../support/actor-side.js";

using device = Device.open("host");
using array = DeviceArray.allocate(device, { dtype: "int32", shape: [3] });
await array.write(Int32Array.of(1, 2, 3));

say("ready");
for (;;) {
  const line = await told();
  if (line === "share") {
    say(share(array).document);
    continue;
  }
  try {
    using opened = await openShared(JSON.parse(line), { device });
    say({ code: null, values: [...((await opened.read()) as Int32Array)] });
  } catch (error) {
    say({ code: error instanceof CudaIpcError ? error.code : "other", message: String(error) });
  }
}
