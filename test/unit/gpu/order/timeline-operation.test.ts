import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Device } from "../../../../src/gpu/device.js";
import { checkLeaks } from "../../../support/leak-check.js";

/** A value of a wrong type, as plain JavaScript could pass it. */
type Wrong = never;

describe("timeline operations of a stream", () => {
  checkLeaks();

  const wrongTimelines: readonly [found: unknown, shown: string][] = [
    [undefined, "undefined"],
    [null, "null"],
    ["frames", "a string"],
    [{ pointerOn: () => 0n }, "an object"],
    [[], "an array"],
    [Symbol("frames"), "a symbol"],
  ];

  for (const [found, shown] of wrongTimelines) {
    it(`throw a TypeError for ${shown} instead of a timeline`, () => {
      using device = Device.open("host");
      using stream = device.createStream();
      const wrong = found as Wrong;
      const signal = new TypeError(`Cannot signal ${shown}, wanted a timeline of this process`);
      const wait = new TypeError(`Cannot wait for ${shown}, wanted a timeline or an event`);
      const waitInBatch = new TypeError(`Cannot wait for ${shown}, wanted a timeline`);
      assert.throws(() => stream.signal(wrong, 1), signal);
      assert.throws(() => stream.wait(wrong, 1), wait);
      assert.throws(() => stream.wait(wrong), wait);
      assert.throws(() => stream.batch([{ signal: wrong, value: 1 }]), signal);
      assert.throws(() => stream.batch([{ wait: wrong, value: 1 }]), waitInBatch);
    });
  }

  it("refuse to signal an imported timeline, and to signal or batch an event", () => {
    using device = Device.open("host");
    using stream = device.createStream();
    using timeline = device.createTimeline();
    using fd = timeline.exportFd();
    using theirs = device.importTimeline(fd, timeline.place, { label: "theirs" });
    using event = device.createEvent({ label: "done" });
    assert.throws(() => stream.signal(theirs as Wrong, 1), {
      name: "TypeError",
      message:
        'Cannot signal timeline "theirs" of another process, wanted a timeline of this process',
    });
    assert.throws(() => stream.signal(event as Wrong, 1), {
      name: "TypeError",
      message: /^Cannot signal event "done"/,
    });
    assert.throws(() => stream.batch([{ wait: event as Wrong, value: 1 }]), {
      name: "TypeError",
      message: 'Cannot wait for event "done", wanted a timeline',
    });
    assert.equal(timeline.value, 0n);
  });

  it("throw a TypeError if a batch is not an array of operations", () => {
    using device = Device.open("host");
    using stream = device.createStream();
    using timeline = device.createTimeline();
    for (const wrong of [undefined, null, 1, "signal", { signal: timeline, value: 1 }]) {
      assert.throws(() => stream.batch(wrong as Wrong), {
        name: "TypeError",
        message: /wanted an array of operations$/,
      });
    }
    for (const wrong of [undefined, null, 1, "signal"]) {
      const message = /, wanted \{ signal, value \} or \{ wait, value \}$/;
      assert.throws(() => stream.batch([wrong as Wrong]), { name: "TypeError", message });
    }
    assert.throws(() => stream.batch([{ value: 1 } as Wrong]), {
      name: "TypeError",
      message: /^Cannot wait for undefined/,
    });
    assert.equal(stream.isIdle(), true);
  });

  it("accept only integers in range as values", () => {
    using device = Device.open("host");
    using stream = device.createStream();
    using timeline = device.createTimeline();
    const wrong = [
      undefined,
      null,
      "1",
      true,
      1.5,
      Number.NaN,
      2 ** 53,
      {},
      Object.create(null),
      () => 1,
      Symbol("1"),
    ];
    for (const value of wrong as Wrong[]) {
      const error = { name: "TypeError", message: /^Value of a timeline must be an integer, not / };
      assert.throws(() => stream.signal(timeline, value), error);
      assert.throws(() => stream.wait(timeline, value), error);
      assert.throws(() => stream.batch([{ signal: timeline, value }]), error);
    }
    for (const value of [-1, -1n, 2n ** 63n - 1n]) {
      const error = {
        name: "RangeError",
        message: `Value of a timeline must be from 0 to 2^63 - 2, not ${value}`,
      };
      assert.throws(() => stream.signal(timeline, value), error);
      assert.throws(() => stream.wait(timeline, value), error);
    }
    assert.deepEqual([stream.isIdle(), timeline.value], [true, 0n]);
  });
});
