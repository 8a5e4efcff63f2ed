// Drops an open buffer and reports what is held after its collection. Run with --expose-gc.
import { once } from "node:events";
import { Device } from "../../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import { openBufferCount } from "../../../../src/gpu/memory/open-buffers.js";
import { mappedBytes } from "../../../../src/os/mapping.js";
import { openFdCount } from "../../../../src/os/owned-fd.js";
import { say } from "../../../support/actor-side.js";

const device = Device.open("host");
DeviceBuffer.allocate(device, 4096, { label: "frame" });
const warned = once(process, "warning");
const timer = setInterval(() => globalThis.gc?.(), 5);
await warned;
clearInterval(timer);
say({ mapped: mappedBytes(), buffers: openBufferCount(), fds: openFdCount() });
