import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { ErrorCode } from "../../../../src/base/error-codes.js";
import { hasCode } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import { Device } from "../../../../src/gpu/device.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { type CountingDriver, createCountingDriver } from "../../../support/live-counts.js";

let counting: CountingDriver;
let device: Device;

const code = (wanted: ErrorCode) => (error: unknown) => hasCode(error, wanted);

describe("an event", () => {
  checkLeaks(() => device.close());
  beforeEach(() => {
    counting = createCountingDriver(createHostDriver());
    device = Device.open("host", () => counting.driver);
  });

  it("is reused after close() only once its recording is done", async () => {
    using gate = device.createTimeline();
    using held = device.createStream();
    const before = counting.counts().events;
    const closed = device.createEvent();
    held.wait(gate, 1);
    closed.record(held);
    closed.close();
    device.createEvent().close();
    assert.equal(counting.counts().events, before + 2);
    gate.signal(1);
    await held.synchronize({ timeoutMs: 30_000 });
    const [one, other] = [device.createEvent(), device.createEvent()];
    assert.equal(counting.counts().events, before + 2);
    one.close();
    other.close();
  });

  it("is not done before it is recorded, and waiting for it is an error", async () => {
    using event = device.createEvent({ label: "mine" });
    using stream = device.createStream();
    assert.deepEqual(
      [event.done, event.recorded, event.imported, event.label],
      [false, 0, false, "mine"],
    );
    await assert.rejects(event.synchronize(), code("EVENT_NOT_RECORDED"));
    assert.throws(() => stream.wait(event), code("EVENT_NOT_RECORDED"));
    event.record(stream);
    await event.synchronize();
    stream.wait(event);
    assert.deepEqual([event.done, event.recorded, event.export().recorded], [true, 1, 1]);
  });

  it("throws CLOSED after it was closed", async () => {
    const event = device.createEvent();
    using stream = device.createStream();
    event.record(stream);
    event.close();
    event.close();
    for (const attempt of [
      () => event.done,
      () => event.record(stream),
      () => event.export(),
      () => stream.wait(event),
    ]) {
      assert.throws(attempt, code("CLOSED"));
    }
    await assert.rejects(event.synchronize(), code("CLOSED"));
  });

  it("is reused with another generation, and destroyed only with its device", () => {
    using stream = device.createStream();
    const generations = new Set<number>();
    const handles = new Set<string>();
    for (let i = 0; i < 50; i += 1) {
      using event = device.createEvent();
      assert.deepEqual([event.done, event.recorded], [false, 0]);
      event.record(stream);
      const { generation, handle } = event.export();
      generations.add(generation);
      handles.add(handle);
    }
    assert.deepEqual([generations.size, handles.size, counting.counts().events], [50, 1, 1]);
    stream.close();
    device.close();
    assert.equal(counting.counts().events, 0);
  });

  it("keeps its device's driver open until it is closed", () => {
    const event = device.createEvent();
    device.close();
    assert.equal(event.done, false);
    event.close();
    assert.equal(counting.counts().events, 0);
    assert.throws(() => device.createEvent(), code("CLOSED"));
  });

  it("is refused beyond the limit, until another event is closed", () => {
    const events = Array.from({ length: limits.eventsPerDeviceMax }, () => device.createEvent());
    assert.throws(() => device.createEvent(), code("LIMIT_EXCEEDED"));
    events.pop()?.close();
    device.createEvent().close();
    for (const event of events) event.close();
  });
});
