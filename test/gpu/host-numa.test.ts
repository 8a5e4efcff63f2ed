/** Host-numa memory, which the GPU and the CPU use at one address. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DeviceBuffer } from "../../src/doors/interop.js";
import { Device } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";

const absence = whyNoGpu();
const supported = (device: Device) =>
  device.facts.attributes.HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED === 1 &&
  (device.facts.attributes.HOST_NUMA_ID ?? -1) >= 0;

describe("host-numa memory beside cuda:0", { skip: absence ?? false }, () => {
  it("is visible to the CPU without a copy, and imported by its descriptor", async (context) => {
    using device = Device.open("cuda:0");
    if (!supported(device)) {
      assert.throws(() => DeviceBuffer.allocate(device, 4096, { place: "host-numa" }), {
        code: "UNSUPPORTED",
      });
      context.skip("this driver has none");
      return;
    }
    using buffer = DeviceBuffer.allocate(device, 1_000_000, { place: "host-numa" });
    buffer.view().fill(7);
    await buffer.fill(0, { elementBytes: 1, value: 9 }, 10);
    assert.deepEqual([...buffer.view(8, 4)], [9, 9, 7, 7]);
    using fd = buffer.exportFd();
    const claim = {
      label: "twin",
      byteLength: 1_000_000,
      allocationByteLength: buffer.allocationByteLength,
      access: "read-write",
    } as const;
    using twin = DeviceBuffer.import(device, fd, { ...claim, place: "host-numa" });
    const found = new Uint8Array(4);
    await twin.read(8, found);
    assert.deepEqual([...found], [9, 9, 7, 7]);
    assert.throws(() => DeviceBuffer.import(device, fd, claim), { code: "INVALID_DESCRIPTOR" });
  });
});
