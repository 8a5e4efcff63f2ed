/**
 * Each call of the driver fails in turn while handles are exported and imported. The error is
 * thrown, and nothing is left.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type ArrayHandleDocument,
  Event,
  IpcArrayHandle,
  openIpcHandle,
} from "../../src/doors/interop.js";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../src/driver/host/host-driver.js";
import { Device, DeviceArray } from "../../src/index.js";
import { Actor } from "../support/actor.js";
import { createFailingDriver } from "../support/failing-driver.js";
import { checkLeaks } from "../support/leak-check.js";
import { createCountingDriver } from "../support/live-counts.js";
import { isMadeToFail } from "../support/made-to-fail.js";

const ACTORS = "../process/ipc/actors";
const SHARES = new URL(`${ACTORS}/shares-array.js`, import.meta.url);
const RECORDS = new URL(`${ACTORS}/records-event.js`, import.meta.url);

/** WHY only these: gpu-calls.test.ts covers what the layers below do with the others. */
const only = [
  "createEvent",
  "recordEvent",
  "isEventDone",
  "waitEvent",
  "exportEvent",
  "importEvent",
  "destroyEvent",
  "allocateLegacy",
  "freeLegacy",
  "exportLegacy",
  "importLegacy",
  "closeLegacy",
] as const;

async function useHandles(
  driver: GpuDriver,
  array: ArrayHandleDocument,
  event: unknown,
): Promise<void> {
  using device = Device.open("host", () => driver);
  using stream = device.createStream();
  using own = device.createEvent();
  own.record(stream);
  stream.wait(own);
  own.export();
  await own.synchronize();
  using imported = Event.import(device, event);
  stream.wait(imported);
  assert.equal(imported.done, true);
  using made = DeviceArray.allocate(device, { dtype: "int32", shape: [4], mechanism: "legacy" });
  IpcArrayHandle.of(made);
  const handle = IpcArrayHandle.from(array);
  using first = handle.open(device);
  using second = handle.open(device);
  using raw = openIpcHandle(device, array.handle, { dtype: "int32", shape: [4] });
  assert.equal(first.buffer.pointer, second.buffer.pointer);
  assert.equal(raw.buffer.pointer, second.buffer.pointer);
  await stream.synchronize();
}

describe("a failing n-th call on handles", () => {
  checkLeaks();

  it("is thrown by its operation, and leaves nothing", async () => {
    await using sharer = new Actor(SHARES, { args: ["host"] });
    await using recorder = new Actor(RECORDS, { args: ["host"] });
    const { whole } = (await sharer.says()) as { whole: ArrayHandleDocument };
    let event = await recorder.says();
    for (let step = 0; step < 3; step += 1) {
      recorder.goOn();
      event = await recorder.says();
    }
    const failed = new Set<string>();
    for (let failAt = 1; ; failAt += 1) {
      const counting = createCountingDriver(createHostDriver());
      const failing = createFailingDriver(counting.driver, { failAt, only });
      const before = counting.counts();
      let thrown: unknown;
      try {
        await useHandles(failing.driver, whole, event);
      } catch (error) {
        thrown = error;
      }
      assert.deepEqual(counting.counts(), before, `call ${failAt}, ${failing.failed}`);
      if (failing.failed === undefined) {
        assert.equal(thrown, undefined);
        break;
      }
      failed.add(failing.failed);
      assert.ok(isMadeToFail(thrown), `call ${failAt}, ${failing.failed}: found ${String(thrown)}`);
    }
    assert.deepEqual([...failed].sort(), [...only].sort());
  });
});
