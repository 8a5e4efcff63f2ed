import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { Device } from "../../../../src/gpu/device.js";
import { endTimelineOfDead } from "../../../../src/gpu/order/dead-timeline.js";
import type { ImportedTimeline, Timeline } from "../../../../src/gpu/order/timeline.js";
import { createMemoryFile } from "../../../../src/os/memory-file.js";
import { OwnedFd } from "../../../../src/os/owned-fd.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { checkLeaks } from "../../../support/leak-check.js";

const gone = (error: unknown) => hasCode(error, "PEER_GONE");
const LATE_MS = 30_000;

function imported(device: Device, timeline: Timeline): ImportedTimeline {
  using fd = timeline.exportFd();
  return device.importTimeline(fd, timeline.place, { label: "theirs" });
}

describe("Timeline", () => {
  checkLeaks();

  it("starts at 0 and shows each signal to importers", () => {
    using device = Device.open("host");
    using timeline = device.createTimeline();
    using theirs = imported(device, timeline);
    assert.deepEqual([timeline.value, theirs.value], [0n, 0n]);
    timeline.signal(3);
    assert.deepEqual([timeline.value, theirs.value], [3n, 3n]);
    assert.deepEqual([theirs.reached(3), theirs.reached(4n)], [true, false]);
  });

  it("accepts only growing values, and only integers in range", () => {
    using device = Device.open("host");
    using timeline = device.createTimeline({ label: "frames" });
    timeline.signal(5n);
    assert.throws(() => timeline.signal(5), /signal timeline "frames": 5 is not larger than 5/);
    for (const value of [-1, 2n ** 63n - 1n])
      assert.throws(() => timeline.signal(value), RangeError);
    for (const value of [1.5, Number.NaN, "6" as unknown as number]) {
      assert.throws(() => timeline.signal(value), TypeError);
    }
    timeline.signal(2n ** 63n - 2n);
    assert.equal(timeline.value, 2n ** 63n - 2n);
  });

  it("is awaited by the CPU, with a timeout and an abort signal", async () => {
    using device = Device.open("host");
    using timeline = device.createTimeline();
    using theirs = imported(device, timeline);
    const waiting = theirs.wait(2, { timeoutMs: LATE_MS });
    timeline.signal(1);
    timeline.signal(2);
    await waiting;
    await theirs.wait(1);
    await assert.rejects(theirs.wait(3, { timeoutMs: 0 }), {
      code: "TIMEOUT",
      message: /^Cannot wait for 3 of timeline .+: not done within 0 ms; it has reached 2$/,
    });
    await assert.rejects(theirs.wait(3, { signal: AbortSignal.abort() }), (error) =>
      hasCode(error, "ABORTED"),
    );
  });

  it("orders streams of owner and importer", async () => {
    using device = Device.open("host");
    using one = device.createTimeline();
    using other = device.createTimeline();
    using theirs = imported(device, one);
    using writer = device.createStream();
    using reader = device.createStream();
    reader.wait(theirs, 1);
    reader.signal(other, 1);
    assert.equal(reader.isIdle(), false);
    assert.equal(other.value, 0n);
    writer.signal(one, 1);
    await reader.synchronize({ timeoutMs: LATE_MS });
    assert.equal(other.value, 1n);
  });

  it("enqueues several signals and waits with one call", async () => {
    using device = Device.open("host");
    using one = device.createTimeline();
    using other = device.createTimeline();
    using stream = device.createStream();
    stream.batch([
      { signal: one, value: 1 },
      { wait: other, value: 1 },
      { signal: one, value: 2 },
    ]);
    assert.deepEqual([stream.isIdle(), one.value], [false, 1n]);
    other.signal(1);
    await stream.synchronize({ timeoutMs: LATE_MS });
    assert.equal(one.value, 2n);
    assert.throws(
      () => stream.batch(new Array(limits.streamBatchMax + 1).fill({ wait: one, value: 1 })),
      RangeError,
    );
  });
});

describe("the end of a timeline", () => {
  checkLeaks();

  it("ends CPU waits with PEER_GONE unless their value was reached", async () => {
    using device = Device.open("host");
    const timeline = device.createTimeline({ label: "frames" });
    using theirs = imported(device, timeline);
    timeline.signal(7);
    const waiting = theirs.wait(8, { timeoutMs: LATE_MS });
    timeline.close();
    await assert.rejects(waiting, /Timeline "theirs" ended at 7 and will never reach 8/);
    await theirs.wait(7);
    assert.deepEqual([theirs.read({ evenIfEnded: true }), theirs.ended], [7n, true]);
    assert.throws(
      () => timeline.signal(9),
      (error) => hasCode(error, "CLOSED"),
    );
  });

  it("releases waiting streams, which throw PEER_GONE once", async () => {
    using device = Device.open("host");
    const timeline = device.createTimeline();
    using theirs = imported(device, timeline);
    using stream = device.createStream();
    timeline.signal(1);
    stream.wait(theirs, 1);
    await stream.synchronize({ timeoutMs: LATE_MS });
    for (const value of [1, 2, 1]) stream.wait(theirs, value);
    timeline.close();
    await assert.rejects(stream.synchronize({ timeoutMs: LATE_MS }), gone);
    await stream.synchronize({ timeoutMs: LATE_MS });
  });

  it("is no error for a stream that had passed its wait", async () => {
    using device = Device.open("host");
    const timeline = device.createTimeline();
    using theirs = imported(device, timeline);
    using stream = device.createStream();
    timeline.signal(4);
    stream.wait(theirs, 4);
    timeline.close();
    await stream.synchronize({ timeoutMs: LATE_MS });
  });

  it("is written by another process for a dead owner, with a writable descriptor", async () => {
    using device = Device.open("host");
    using timeline = device.createTimeline();
    using theirs = imported(device, timeline);
    using writable = timeline.exportWritableFd();
    using readable = timeline.exportFd();
    timeline.signal(2);
    assert.throws(
      () => endTimelineOfDead(readable, timeline.place),
      (error) => hasCode(error, "PERMISSION_DENIED"),
    );
    const waiting = theirs.wait(3, { timeoutMs: LATE_MS });
    endTimelineOfDead(writable, timeline.place);
    endTimelineOfDead(writable, timeline.place);
    await assert.rejects(waiting, gone);
    assert.equal(theirs.read({ evenIfEnded: true }), 2n);
  });

  it("keeps the memory for streams that still wait, and frees it after them", async () => {
    using device = Device.open("host");
    const timeline = device.createTimeline();
    const theirs = imported(device, timeline);
    using stream = device.createStream();
    stream.wait(theirs, 1);
    theirs.close();
    assert.equal(stream.isIdle(), false);
    timeline.signal(1);
    await stream.synchronize({ timeoutMs: LATE_MS });
    timeline.close();
    timeline.close();
    assert.throws(
      () => theirs.value,
      (error) => hasCode(error, "CLOSED"),
    );
  });
});

describe("importing a timeline", () => {
  checkLeaks();

  it("refuses an invalid descriptor or offset", () => {
    using device = Device.open("host");
    using timeline = device.createTimeline();
    using fd = timeline.exportFd();
    const invalid = (error: unknown) => hasCode(error, "INVALID_DESCRIPTOR");
    for (const byteOffset of [-64, 8, 1.5, limits.timelineArenaBytes, Number.NaN]) {
      assert.throws(() => device.importTimeline(fd, { byteOffset }), invalid);
    }
    using odd = createMemoryFile("odd", 12);
    assert.throws(() => device.importTimeline(odd, { byteOffset: 0 }), invalid);
    using pipe = OwnedFd.prototype.duplicate.call({ number: 2 } as OwnedFd);
    assert.throws(() => device.importTimeline(pipe, { byteOffset: 0 }), invalid);
  });

  it("maps the memory of one process once for many timelines", () => {
    using device = Device.open("host");
    const registrations: Timeline[] = [];
    const theirs: ImportedTimeline[] = [];
    using stream = device.createStream();
    for (let i = 0; i < 5; i += 1) {
      const timeline = device.createTimeline();
      registrations.push(timeline);
      theirs.push(imported(device, timeline));
    }
    assert.equal(new Set(theirs.map((it) => it.pointerOn(device) - BigInt(it.byteOffset))).size, 1);
    assert.equal(new Set(theirs.map((it) => it.byteOffset)).size, 5);
    assert.equal(stream.isIdle(), true);
    for (const it of [...theirs, ...registrations]) it.close();
  });

  it("never reuses the offset of a timeline", () => {
    using device = Device.open("host");
    using first = device.createTimeline();
    using theirs = imported(device, first);
    first.signal(1);
    first.close();
    for (let i = 0; i < 2 * (limits.timelineArenaBytes / 64); i += 1)
      device.createTimeline().close();
    assert.deepEqual([theirs.read({ evenIfEnded: true }), theirs.ended], [1n, true]);
  });

  it("serves several devices of a process, each with its own registration", async () => {
    using host = Device.open("host");
    using gpu = Device.open("cuda:0", () => createFakeGpu());
    using timeline = host.createTimeline();
    using stream = gpu.createStream();
    using local = host.createStream();
    timeline.prepare(gpu);
    stream.wait(timeline, 1);
    local.signal(timeline, 1);
    await stream.synchronize({ timeoutMs: LATE_MS });
  });
});

describe("closing a timeline", () => {
  checkLeaks();

  it("waits for pending signals of a stream", async () => {
    using device = Device.open("host");
    using gate = device.createTimeline();
    const timeline = device.createTimeline();
    using theirs = imported(device, timeline);
    using stream = device.createStream();
    stream.wait(gate, 1);
    stream.signal(timeline, 5);
    timeline.close();
    assert.deepEqual([theirs.value, theirs.ended], [0n, false]);
    gate.signal(1);
    await stream.synchronize({ timeoutMs: LATE_MS });
    assert.deepEqual([theirs.read({ evenIfEnded: true }), theirs.ended], [5n, true]);
  });

  it("waits for pending signals of a stream that was idle after earlier ones", async () => {
    using device = Device.open("host");
    using gate = device.createTimeline();
    const timeline = device.createTimeline();
    using theirs = imported(device, timeline);
    using stream = device.createStream();
    stream.signal(timeline, 1);
    await stream.synchronize({ timeoutMs: LATE_MS });
    stream.wait(gate, 1);
    stream.signal(timeline, 2);
    timeline.close();
    assert.deepEqual([theirs.value, theirs.ended], [1n, false]);
    gate.signal(1);
    await stream.synchronize({ timeoutMs: LATE_MS });
    assert.deepEqual([theirs.read({ evenIfEnded: true }), theirs.ended], [2n, true]);
  });

  it("ends it at once if its streams have passed their signals", () => {
    using device = Device.open("host");
    const timeline = device.createTimeline();
    using theirs = imported(device, timeline);
    using stream = device.createStream();
    stream.signal(timeline, 5);
    timeline.close();
    assert.deepEqual([theirs.read({ evenIfEnded: true }), theirs.ended], [5n, true]);
  });

  it("ends CPU waits of this process with CLOSED", async () => {
    using device = Device.open("host");
    using timeline = device.createTimeline();
    const theirs = imported(device, timeline);
    const waiting = theirs.wait(1);
    theirs.close();
    await assert.rejects(waiting, (error) => hasCode(error, "CLOSED"));
  });

  it("makes a stream throw one error if several of its timelines end", async () => {
    using device = Device.open("host");
    const timelines = [1, 2, 3].map(() => device.createTimeline());
    const theirs = timelines.map((it) => imported(device, it));
    using stream = device.createStream();
    for (const it of theirs) stream.wait(it, 1);
    for (const it of timelines) it.close();
    await assert.rejects(stream.synchronize({ timeoutMs: LATE_MS }), gone);
    for (const it of theirs) it.close();
  });

  it("does not let a wait spin beyond its timeout", async () => {
    using device = Device.open("host");
    using timeline = device.createTimeline();
    await assert.rejects(
      timeline.wait(1, { timeoutMs: 5, spinMs: Number.POSITIVE_INFINITY }),
      (error) => hasCode(error, "TIMEOUT"),
    );
    await assert.rejects(timeline.wait(1, { spinMs: Number.NaN }), RangeError);
  });
});
