// Keeps a view after buffer and device were closed, reads it, drops it, and reports when it is
// unmapped. Run with --expose-gc.
import { Device } from "../../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import { openBufferCount } from "../../../../src/gpu/memory/open-buffers.js";
import { mappedBytes } from "../../../../src/os/mapping.js";
import { say } from "../../../support/actor-side.js";
import { until } from "../../../support/until.js";

const device = Device.open("host");
const buffer = DeviceBuffer.allocate(device, 4096, { label: "frame" });
let view: Uint8Array | undefined = buffer.view();
view[7] = 42;
buffer.close();
device.close();
globalThis.gc?.();
await new Promise((resolve) => setImmediate(resolve));
say({ afterClose: view[7], mapped: mappedBytes(), buffers: openBufferCount() });
view = undefined;
await until("the view is collected", () => {
  globalThis.gc?.();
  return mappedBytes() === 0;
});
say({ mapped: mappedBytes() });
