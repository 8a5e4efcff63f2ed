/** A lost context is reported to all listeners. An unused device is not checked. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import type { GpuDriver } from "../../../../src/driver/gpu-driver.js";
import { DeviceArray } from "../../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../../src/gpu/device.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { soon } from "../../../support/until.js";

interface Rig extends Disposable {
  readonly device: Device;
  /** Number of streams created so far. */
  readonly streams: () => number;
  lose(): void;
}

function open(): Rig {
  const driver = createFakeGpu();
  let [streams, isLost] = [0, false];
  const refuse = () => {
    if (isLost)
      throw new CudaIpcError("DEVICE_LOST", "Cannot record an event: the context is lost");
  };
  const watched: GpuDriver = {
    ...Object.fromEntries(
      (Object.keys(driver) as (keyof GpuDriver)[]).map((name) => [name, driver[name]]),
    ),
    createStream(ordinal: number) {
      streams += 1;
      return driver.createStream(ordinal);
    },
    recordEvent(...given: Parameters<GpuDriver["recordEvent"]>) {
      refuse();
      driver.recordEvent(...given);
    },
  } as GpuDriver;
  const device = Device.open("cuda:0", () => watched);
  return {
    device,
    streams: () => streams,
    lose: () => {
      isLost = true;
    },
    [Symbol.dispose]: () => device.close(),
  };
}

describe("a device that loses its context", () => {
  checkLeaks();

  it("calls each listener once, and no removed listener", async () => {
    using rig = open();
    using _array = DeviceArray.allocate(rig.device, { dtype: "uint8", shape: [1] });
    const told: string[] = [];
    const first = new Promise<Error>((resolve) => rig.device.onLost(resolve));
    rig.device.onLost(() => told.push("second"));
    rig.device.onLost(() => told.push("gone"))();
    // The timer of the watch does not keep the process running, so the test needs one that does.
    const running = setInterval(() => {}, 1000);
    rig.lose();
    const error = await soon("the listener is called", first);
    assert.equal((error as CudaIpcError).code, "DEVICE_LOST");
    await soon("a later listener is called", new Promise((resolve) => rig.device.onLost(resolve)));
    clearInterval(running);
    assert.deepEqual(told, ["second"]);
  });

  it("ends a CPU wait for a timeline", async () => {
    using rig = open();
    using timeline = rig.device.createTimeline();
    using _array = DeviceArray.allocate(rig.device, { dtype: "uint8", shape: [1] });
    const waiting = timeline.wait(1);
    rig.lose();
    await assert.rejects(soon("the wait ends", waiting), { code: "DEVICE_LOST" });
  });

  it("is not checked before it is used, so that no context is created", async () => {
    using rig = open();
    using timeline = rig.device.createTimeline();
    rig.lose();
    rig.device.onLost(() => assert.fail("there was nothing to be lost"));
    await assert.rejects(timeline.wait(1, { timeoutMs: 300 }), { code: "TIMEOUT" });
    assert.equal(rig.streams(), 0);
  });
});
