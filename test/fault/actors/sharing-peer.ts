/** The other process: told `share`, it shares an array and says the document; told a document, it opens that and says how it went. */
import { CudaIpcError } from "../../../src/base/errors.js";
import { DeviceArray } from "../../../src/gpu/device-array.js";
import { Device, openShared, share } from "../../../src/index.js";
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
