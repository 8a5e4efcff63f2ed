import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { DeviceArray } from "../../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../../src/gpu/device.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { checkLeaks } from "../../../support/leak-check.js";

const COUNT = 3_000_001;
const values = Int32Array.from({ length: COUNT }, (_, i) => Math.imul(i, 2654435761));
const int32s = (device: Device) => DeviceArray.allocate(device, { dtype: "int32", shape: [COUNT] });

describe("DeviceArray.copyFrom", () => {
  checkLeaks();

  const devices = {
    host: () => Device.open("host"),
    "a GPU": () => Device.open("cuda:0", () => createFakeGpu()),
  };
  for (const [fromName, openFrom] of Object.entries(devices)) {
    for (const [toName, openTo] of Object.entries(devices)) {
      if (fromName === toName && fromName === "a GPU") continue;
      it(`copies from ${fromName} to ${toName}`, async () => {
        using fromDevice = openFrom();
        using toDevice = openTo();
        using from = int32s(fromDevice);
        using to = int32s(toDevice);
        await from.write(values);
        await to.copyFrom(from);
        assert.deepEqual(await to.read(), values);
      });
    }
  }

  it("copies in the order of a stream, and keeps the memory until the copy is done", async () => {
    using device = Device.open("cuda:0", () => createFakeGpu());
    using timeline = device.createTimeline();
    using stream = device.createStream();
    const from = int32s(device);
    using to = int32s(device);
    await from.write(values);
    stream.wait(timeline, 1);
    await to.copyFrom(from, { stream });
    from.close();
    assert.equal(stream.isIdle(), false);
    timeline.signal(1);
    await stream.synchronize({ timeoutMs: 30_000 });
    assert.deepEqual(await to.read(), values);
  });

  it("refuses arrays that do not match, have gaps, or are read-only targets", async () => {
    using device = Device.open("host");
    using array = DeviceArray.allocate(device, { dtype: "int32", shape: [4, 4] });
    using other = DeviceArray.allocate(device, { dtype: "float32", shape: [4, 4] });
    using smaller = DeviceArray.allocate(device, { dtype: "int32", shape: [4] });
    await assert.rejects(array.copyFrom(other as unknown as DeviceArray<"int32">), TypeError);
    await assert.rejects(array.copyFrom(smaller), RangeError);
    await assert.rejects(array.slice({ start: 0, stop: 4 }, 1).copyFrom(smaller), (error) =>
      hasCode(error, "UNSUPPORTED"),
    );
    await smaller.copyFrom(array.slice(2));
  });
});
