/**
 * Events between processes on the host device. They are not done before they are recorded. No
 * process waits for an event that can never be recorded.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import { Event, type EventDescriptor } from "../../../src/doors/interop.js";
import { createHostDriver } from "../../../src/driver/host/host-driver.js";
import { Device } from "../../../src/index.js";
import { openFdCount } from "../../../src/os/owned-fd.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { type CountingDriver, createCountingDriver } from "../../support/live-counts.js";
import { soon } from "../../support/until.js";

const RECORDS = new URL("./actors/records-event.js", import.meta.url);

let counting: CountingDriver;
let device: Device;
checkLeaks(() => device.close());
beforeEach(() => {
  counting = createCountingDriver(createHostDriver());
  device = Device.open("host", () => counting.driver);
});

class Recorder {
  readonly actor = new Actor(RECORDS, { args: ["host"] });

  async describes(): Promise<EventDescriptor> {
    return (await this.actor.says()) as EventDescriptor;
  }

  async next(): Promise<EventDescriptor> {
    this.actor.goOn();
    return this.describes();
  }

  async kill(): Promise<void> {
    this.actor.kill("SIGKILL");
    await this.actor.exited();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.actor[Symbol.asyncDispose]();
  }
}

function refused(code: ErrorCode, attempt: () => unknown): void {
  assert.throws(attempt, (error) => {
    assert.ok(hasCode(error, code), `wanted ${code}: ${String(error)}`);
    return true;
  });
}

async function rejected(code: ErrorCode, promise: Promise<unknown>): Promise<void> {
  await assert.rejects(soon(`it fails with ${code}`, promise), (error) => {
    assert.ok(hasCode(error, code), `wanted ${code}: ${String(error)}`);
    return true;
  });
}

describe("an event of another process", () => {
  it("is neither done nor waited for before its recording is announced", async () => {
    await using recorder = new Recorder();
    using event = Event.import(device, await recorder.describes());
    using stream = device.createStream();
    assert.deepEqual([event.imported, event.recorded, event.done], [true, 0, false]);
    await rejected("EVENT_NOT_RECORDED", event.synchronize());
    refused("EVENT_NOT_RECORDED", () => stream.wait(event));
    event.announce(await recorder.next());
    assert.deepEqual([event.recorded, event.done], [1, false]);
    stream.wait(event);
    assert.equal(stream.isIdle(), false);
    recorder.actor.goOn();
    await soon("the event is done", event.synchronize());
    await soon("the stream is idle", stream.synchronize());
    assert.equal(event.done, true);
    refused("UNSUPPORTED", () => event.record(stream));
    refused("UNSUPPORTED", () => event.export());
  });

  it("makes a wait time out or abort if it is never done", async () => {
    await using recorder = new Recorder();
    await recorder.describes();
    using event = Event.import(device, await recorder.next());
    await rejected("TIMEOUT", event.synchronize({ timeoutMs: 1 }));
    const controller = new AbortController();
    const waiting = event.synchronize({ signal: controller.signal });
    controller.abort();
    await rejected("ABORTED", waiting);
  });

  it("of a killed process ends waits with PEER_GONE, and is not imported again", async () => {
    await using recorder = new Recorder();
    await recorder.describes();
    const descriptor = await recorder.next();
    using event = Event.import(device, descriptor);
    using stream = device.createStream();
    stream.wait(event);
    const waits = [
      rejected("PEER_GONE", event.synchronize()),
      rejected("PEER_GONE", stream.synchronize()),
    ];
    await Promise.all([...waits, recorder.kill()]);
    using later = device.createStream();
    refused("PEER_GONE", () => later.wait(event));
    refused("STALE_HANDLE", () => Event.import(device, descriptor));
  });

  it("stays done after its process ends", async () => {
    await using recorder = new Recorder();
    await recorder.describes();
    using event = Event.import(device, await recorder.next());
    recorder.actor.goOn();
    await recorder.actor.says();
    await recorder.kill();
    await soon("the event is done", event.synchronize());
    assert.equal(event.done, true);
  });

  it("is not announced again by an older descriptor", async () => {
    await using recorder = new Recorder();
    const unrecorded = await recorder.describes();
    using event = Event.import(device, await recorder.next());
    refused("STALE_HANDLE", () => event.announce(unrecorded));
  });

  it("is kept after its close by streams that wait for it", async () => {
    await using recorder = new Recorder();
    await recorder.describes();
    const event = Event.import(device, await recorder.next());
    using stream = device.createStream();
    stream.wait(event);
    const events = counting.counts().events;
    event.close();
    assert.deepEqual([stream.isIdle(), counting.counts().events], [false, events]);
    recorder.actor.goOn();
    await soon("the stream is idle", stream.synchronize());
    assert.equal(counting.counts().events, events - 1);
  });

  it("is released after its close when the waiting stream is closed", async () => {
    await using recorder = new Recorder();
    await recorder.describes();
    const event = Event.import(device, await recorder.next());
    const stream = device.createStream();
    stream.wait(event);
    event.close();
    stream.close();
    assert.equal(counting.counts().events, 0);
  });

  it("is refused if it is this process's own, another object, or not an event", async () => {
    await using recorder = new Recorder();
    const theirs = await recorder.describes();
    using own = device.createEvent();
    refused("OWN_HANDLE", () => Event.import(device, own.export()));
    refused("UNSUPPORTED", () => own.announce(own.export()));
    using event = Event.import(device, theirs);
    refused("INVALID_DESCRIPTOR", () => event.announce(own.export()));
    const { exporter } = theirs;
    const bytes = Buffer.from(theirs.handle, "base64");
    const wrong: [ErrorCode, unknown][] = [
      [
        "STALE_HANDLE",
        { ...theirs, exporter: { ...exporter, startTicks: exporter.startTicks - 1 } },
      ],
      [
        "STALE_HANDLE",
        { ...theirs, exporter: { ...exporter, bootId: "01234567-89ab-4cde-8f01-23456789abcd" } },
      ],
      ["INVALID_HANDLE", { ...theirs, handle: bytes.subarray(1).toString("base64") }],
      ["INVALID_HANDLE", { ...theirs, handle: Buffer.alloc(65).toString("base64") }],
      ["INVALID_HANDLE", { ...theirs, handle: Buffer.alloc(64).toString("base64") }],
      ["INVALID_HANDLE", { ...theirs, handle: "?" }],
      ["INVALID_DESCRIPTOR", { ...theirs, recorded: -1 }],
      ["INVALID_DESCRIPTOR", { ...theirs, kind: "array-handle" }],
      ["INVALID_DESCRIPTOR", { ...theirs, more: 1 }],
      ["INVALID_DESCRIPTOR", undefined],
    ];
    for (const [code, descriptor] of wrong) refused(code, () => Event.import(device, descriptor));
  });

  it("needs one mapping and one watch, however often it is opened", async () => {
    await using recorder = new Recorder();
    const descriptor = await recorder.describes();
    const fds = openFdCount();
    const events = Array.from({ length: 300 }, () => Event.import(device, descriptor));
    assert.equal(openFdCount(), fds + 2, "a watch of the device, and one of its driver");
    for (const event of events) event.close();
    assert.equal(openFdCount(), fds);
    using again = Event.import(device, descriptor);
    assert.equal(again.recorded, 0);
  });
});
