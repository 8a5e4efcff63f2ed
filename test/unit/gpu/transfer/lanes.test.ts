import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { hasCode } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { DeviceArray } from "../../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../../src/gpu/device.js";
import type { Lane } from "../../../../src/gpu/transfer/lane.js";
import { Lanes, laneCountMax } from "../../../../src/gpu/transfer/lanes.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { type CountingDriver, createCountingDriver } from "../../../support/live-counts.js";
import { soon } from "../../../support/until.js";

const FOREVER = new Deadline("work", {}, Number.POSITIVE_INFINITY);

describe("Lanes", () => {
  let counting: CountingDriver;
  let lanes: Lanes;
  checkLeaks(() => {
    lanes.close();
    const { stagings, streams } = counting.counts();
    assert.deepEqual({ stagings, streams }, { stagings: 0, streams: 0 });
    counting.driver.close();
  });
  beforeEach(() => {
    counting = createCountingDriver(createFakeGpu());
    lanes = new Lanes(counting.driver, 0);
  });

  it("split a transfer into pieces that cover it once, one at a time per lane", async () => {
    const byteLength = 40 * limits.stagingBytes + 7;
    const covered: [number, number][] = [];
    let atWork = 0;
    let most = 0;
    const lanesSeen = new Set<Lane>();
    await lanes.forEachPiece(byteLength, FOREVER, async (lane, piece) => {
      atWork += 1;
      most = Math.max(most, atWork);
      lanesSeen.add(lane);
      covered.push([piece.byteOffset, piece.byteLength]);
      await new Promise((resolve) => setImmediate(resolve));
      atWork -= 1;
    });
    covered.sort(([one], [other]) => one - other);
    let end = 0;
    for (const [byteOffset, length] of covered) {
      assert.equal(byteOffset, end);
      end += length;
    }
    assert.equal(end, byteLength);
    assert.equal(most, lanesSeen.size);
    assert.ok(most > 1 && most <= limits.transferLanes, `${most} lanes`);
  });

  it("are shared by concurrent transfers, but never used by two at once", async () => {
    const busy = new Set<Lane>();
    const work = async (lane: Lane) => {
      assert.ok(!busy.has(lane));
      busy.add(lane);
      await new Promise((resolve) => setImmediate(resolve));
      busy.delete(lane);
    };
    await Promise.all(
      Array.from({ length: 5 }, () => lanes.forEachPiece(20 * limits.stagingBytes, FOREVER, work)),
    );
    assert.ok(counting.counts().streams <= limits.transferLanes);
  });

  it("stop at the first error, and throw it when all lanes have stopped", async () => {
    const failure = new Error("no");
    let begun = 0;
    let atWork = 0;
    const transfer = lanes.forEachPiece(
      100 * limits.stagingBytes,
      FOREVER,
      async (_lane, piece) => {
        begun += 1;
        atWork += 1;
        await new Promise((resolve) => setImmediate(resolve));
        atWork -= 1;
        if (piece.byteOffset === 0) throw failure;
      },
    );
    await assert.rejects(transfer, failure);
    assert.equal(atWork, 0);
    assert.ok(begun < 100);
    await lanes.forEachPiece(limits.stagingBytes, FOREVER, async () => {});
  });

  it("stop between pieces after the deadline", async () => {
    const controller = new AbortController();
    const deadline = new Deadline("work", { signal: controller.signal }, Number.POSITIVE_INFINITY);
    let begun = 0;
    const transfer = lanes.forEachPiece(100 * limits.stagingBytes, deadline, async () => {
      begun += 1;
      await new Promise((resolve) => setImmediate(resolve));
      controller.abort();
    });
    await assert.rejects(transfer, (error) => hasCode(error, "ABORTED"));
    assert.ok(begun <= limits.transferLanes);
  });

  it("are freed by close(), busy lanes once they are done", async () => {
    let goOn: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const transfer = lanes.forEachPiece(3 * limits.stagingBytes, FOREVER, () => held);
    await new Promise((resolve) => setImmediate(resolve));
    lanes.close();
    assert.equal(counting.counts().stagings, 3);
    goOn();
    await transfer;
    assert.equal(counting.counts().stagings, 0);
  });

  it("serve as many transfers as before after close(), each with new lanes", async () => {
    await lanes.forEachPiece(limits.stagingBytes, FOREVER, async () => {});
    lanes.close();
    for (let count = 0; count <= laneCountMax(); count += 1) {
      const transfer = lanes.forEachPiece(limits.stagingBytes, FOREVER, async () => {});
      await soon("a lane for it", transfer);
    }
    assert.equal(counting.counts().stagings, 0);
  });

  describe("that are all busy", () => {
    const waitUntilAborted = () => {
      let goOn: () => void = () => {};
      const held = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      const busy = Array.from({ length: laneCountMax() }, () =>
        lanes.forEachPiece(limits.stagingBytes, FOREVER, () => held),
      );
      const controller = new AbortController();
      const { signal } = controller;
      const deadline = new Deadline("work", { signal }, Number.POSITIVE_INFINITY);
      const waiting = lanes.forEachPiece(3 * limits.stagingBytes, deadline, async () => {});
      return { goOn, busy: Promise.all(busy), waiting, abort: () => controller.abort() };
    };

    it("are waited for until the deadline", async () => {
      const { goOn, busy, waiting, abort } = waitUntilAborted();
      const late = lanes.forEachPiece(1, new Deadline("work", { timeoutMs: 1 }, 0), async () => {});
      setImmediate(abort);
      try {
        await Promise.all([
          assert.rejects(soon("the abort", waiting), { code: "ABORTED" }),
          assert.rejects(soon("the timeout", late), { code: "TIMEOUT" }),
        ]);
      } finally {
        goOn();
      }
      await busy;
    });

    it("are given back if they come at the moment of an abort", async () => {
      const outcomes = new Set<string>();
      for (let ticks = 0; ticks < 12; ticks += 1) {
        const { goOn, busy, waiting, abort } = waitUntilAborted();
        const outcome = waiting.then(
          () => "done",
          (error: unknown) => (hasCode(error, "ABORTED") ? "aborted" : String(error)),
        );
        goOn();
        for (let tick = 0; tick < ticks; tick += 1) await null;
        abort();
        outcomes.add(await soon("its end", outcome));
        await busy;
      }
      assert.deepEqual([...outcomes].sort(), ["aborted", "done"]);
    });
  });

  it("do nothing for an empty transfer", async () => {
    await lanes.forEachPiece(0, FOREVER, () => assert.fail("there is no piece"));
    assert.equal(counting.counts().streams, 0);
  });
});

describe("an array on a fake GPU", () => {
  checkLeaks();

  it("is read, written and cleared through staging memory, whole and sliced", async () => {
    const counting = createCountingDriver(createFakeGpu());
    using device = Device.open("cuda:0", () => counting.driver);
    using array = DeviceArray.allocate(device, { dtype: "uint32", shape: [2000, 3000] });
    const values = Uint32Array.from({ length: 6_000_000 }, (_, i) => i * 7);
    await array.write(values);
    assert.deepEqual(await array.read(), values);
    const part = array.slice({ start: 1999, stop: 1, step: -500 }, { start: 10, stop: 20 });
    assert.deepEqual(
      [...(await part.read())].slice(0, 3),
      [1999 * 3000 + 10, 1999 * 3000 + 11, 1999 * 3000 + 12].map((i) => i * 7),
    );
    await part.write(new Uint32Array(part.elementCount));
    const after = await array.read();
    let changed = 0;
    for (let i = 0; i < after.length; i += 1) if (after[i] !== values[i]) changed += 1;
    assert.equal(changed, part.elementCount);
    assert.throws(
      () => array.view(),
      (error) => hasCode(error, "UNSUPPORTED"),
    );
    await array.clear();
    assert.ok((await array.read()).every((value) => value === 0));
  });

  it("has one timeout for all copies of a strided write", async () => {
    using device = Device.open("cuda:0", () => createFakeGpu());
    using array = DeviceArray.allocate(device, { dtype: "uint8", shape: [100_000, 2] });
    const column = array.slice({}, 0);
    const controller = new AbortController();
    const writing = column.write(new Uint8Array(100_000), { signal: controller.signal });
    setImmediate(() => controller.abort());
    await assert.rejects(writing, (error) => hasCode(error, "ABORTED"));
    await assert.rejects(column.write(new Uint8Array(100_000), { timeoutMs: 5 }), (error) =>
      hasCode(error, "TIMEOUT"),
    );
  });
});
