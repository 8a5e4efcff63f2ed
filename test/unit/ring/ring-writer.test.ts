import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { POSITIONS_MAX, whenFullPolicies } from "../../../src/ring/channel-layout.js";
import { plainMessage, RingRig } from "../../support/ring/ring-rig.js";

describe("a free slot", () => {
  for (const whenFull of whenFullPolicies) {
    it(`is one that no reader that is waited for holds: ${whenFull}`, () => {
      const rig = new RingRig({ slots: 3, whenFull });
      rig.attach();
      const room = Array.from({ length: 5 }, () => rig.put() !== undefined);
      assert.deepEqual(
        room,
        whenFull === "drop-oldest" ? Array(5).fill(true) : [true, true, true, false, false],
      );
    });
  }

  it("is any slot if there are no readers", () => {
    const rig = new RingRig({ slots: 1 });
    rig.puts(5);
    assert.deepEqual(rig.writer.liveReaders(), []);
  });

  it("comes back when readers release it, in any order", () => {
    const rig = new RingRig({ slots: 2 });
    const reader = rig.attach();
    rig.puts(2);
    const [first, second] = [reader.tryTake(), reader.tryTake()];
    assert.ok(first && second);
    reader.release(second);
    assert.equal(rig.put(), undefined);
    reader.release(first);
    rig.puts(2);
    assert.equal(rig.put(), undefined);
  });

  it("depends on all readers", () => {
    const rig = new RingRig({ slots: 2 });
    const readers = [rig.attach({ seat: 0 }), rig.attach({ seat: 2 })] as const;
    rig.puts(2);
    rig.drain(readers[0]);
    assert.equal(rig.put(), undefined);
    rig.drain(readers[1]);
    assert.equal(rig.put(), 2);
    assert.equal(rig.writer.liveReaders().length, 2);
  });

  it("is explained by the attached readers, how far they are behind, and who is waited for", () => {
    const rig = new RingRig({ slots: 4 });
    const [slow, lossy] = [rig.attach({ seat: 0 }), rig.attach({ seat: 2, lossy: true })];
    rig.beginSeat(1);
    rig.puts(3);
    rig.drain(lossy);
    assert.deepEqual(rig.writer.liveReaders(), [
      { seat: 0, lease: rig.leases[0], behind: 3, isWaitedFor: true },
      { seat: 2, lease: rig.leases[2], behind: 0, isWaitedFor: false },
    ]);
    slow.detach();
    assert.deepEqual(
      rig.writer.liveReaders().map(({ seat }) => seat),
      [2],
    );
  });

  it("stays reserved even if a late reader claims the slot for a moment", () => {
    const rig = new RingRig({ slots: 2, whenFull: "drop-oldest" });
    const reader = rig.attach();
    rig.puts(1);
    reader.tryTake();
    rig.puts(1);
    assert.ok(rig.writer.reserve());
    const { position } = rig.writer;
    rig.scribble(0, "claims", position - 2 + 1, 1);
    assert.ok(rig.writer.reserve());
    assert.equal(rig.writer.position, position);
  });
});

describe("slots that lossy readers hold", () => {
  it("are passed over in each lap", () => {
    const rig = new RingRig({ slots: 3, whenFull: "drop-oldest" });
    const reader = rig.attach();
    rig.puts(2);
    reader.tryTake();
    const held = reader.tryTake();
    assert.ok(held);
    for (let round = 0; round < 12; round += 1) {
      rig.puts(1);
      assert.notEqual((rig.writer.position - 1) % 3, held.slot);
      rig.assertIntact(held);
    }
  });

  it("are not passed over if all are held", () => {
    const rig = new RingRig({ slots: 3, whenFull: "drop-oldest" });
    const readers = [rig.attach({ seat: 0 }), rig.attach({ seat: 1 })] as const;
    rig.puts(3);
    readers[0].tryTake();
    readers[1].tryTake();
    const second = readers[1].tryTake();
    readers[1].tryTake();
    for (let again = 0; again < 3; again += 1) {
      assert.equal(rig.put(), undefined);
      assert.equal(rig.control.published, 3, "nothing is passed over");
    }
    assert.ok(second);
    readers[1].release(second);
    assert.equal(rig.put(), 3);
    assert.equal(rig.control.published, 5);
  });

  it("are held until their streams are done", () => {
    const rig = new RingRig({ slots: 1, whenFull: "drop-oldest" });
    const reader = rig.attach();
    rig.puts(1);
    const taken = reader.tryTake();
    assert.ok(taken);
    reader.release(taken, (value) => assert.equal(value, 1));
    assert.equal(rig.put(), undefined);
    const pending: number[][] = [];
    rig.writer.pendingHolds((...each) => pending.push(each));
    assert.deepEqual(pending, [[0, 1]]);
    rig.pages[0]?.setDone(1);
    assert.equal(rig.put(), 1);
  });
});

describe("slots that streams give back", () => {
  it("are free, with the values to wait for", () => {
    const rig = new RingRig({ slots: 2 });
    const reader = rig.attach();
    rig.puts(2);
    const [first, second] = [reader.tryTake(), reader.tryTake()];
    assert.ok(first && second);
    const order: number[] = [];
    const signal = (value: number) => order.push(value);
    reader.release(second, signal);
    assert.deepEqual(order, [], "in the order of their positions");
    reader.release(first, signal);
    assert.deepEqual(order, [1, 2]);
    const pending = () => {
      const found: number[][] = [];
      assert.ok(rig.writer.reserve());
      rig.writer.pendingReleases((...each) => found.push(each));
      return found;
    };
    assert.deepEqual(pending(), [[0, 1]]);
    rig.writer.passOver();
    assert.deepEqual(pending(), [[0, 2]]);
    rig.pages[0]?.setDone(2);
    assert.deepEqual(pending(), []);
  });
});

describe("slots that streams give back after positions were passed over", () => {
  it("are waited for, although the message is further back", () => {
    const rig = new RingRig({ slots: 2 });
    const reader = rig.attach();
    rig.puts(2);
    const [first, second] = [reader.tryTake(), reader.tryTake()];
    assert.ok(first && second);
    reader.release(first, () => {});
    reader.release(second);
    assert.ok(rig.writer.reserve());
    rig.writer.passOver();
    rig.puts(1);
    assert.deepEqual(rig.drain(reader), [2]);
    assert.ok(rig.writer.reserve());
    assert.equal(rig.writer.slot, first.slot);
    const pending: number[][] = [];
    rig.writer.pendingReleases((...each) => pending.push(each));
    assert.deepEqual(pending, [[0, 1]]);
  });
});

describe("the last position", () => {
  it("throws LIMIT_EXCEEDED before anything is written", () => {
    const rig = new RingRig({ slots: 4, firstPosition: POSITIONS_MAX - 2 });
    const reader = rig.attach();
    for (let count = 0; count < 3; count += 1) {
      rig.puts(1);
      assert.deepEqual(rig.drain(reader), [count]);
    }
    assert.throws(
      () => rig.put(),
      (error) => hasCode(error, "LIMIT_EXCEEDED"),
    );
    assert.equal(rig.control.published, POSITIONS_MAX + 1);
  });
});

describe("bells", () => {
  it("ring once for each sleep of a reader", () => {
    const rig = new RingRig({ slots: 8 });
    const reader = rig.attach({ seat: 1 });
    rig.puts(1);
    assert.deepEqual(rig.rung, [0, 0, 0], "not for one that is awake");
    for (const sleeps of [1, 2, 3]) {
      reader.fallAsleep();
      rig.puts(2);
      rig.writer.wake();
      assert.deepEqual(rig.rung, [0, sleeps, 0]);
      reader.wakeUp();
      reader.wakeUp();
      rig.puts(0);
    }
  });

  it("ring for the next reader in a seat even if the last one died asleep", () => {
    const rig = new RingRig({ slots: 8 });
    rig.attach().fallAsleep();
    rig.puts(1);
    assert.equal(rig.rung[0], 1);
    rig.endSeat(0);
    const next = rig.attach();
    rig.puts(1);
    assert.equal(rig.rung[0], 1, "awake");
    next.fallAsleep();
    rig.puts(1);
    assert.equal(rig.rung[0], 2);
  });

  it("ring once for each sleep of the writer and of the next writer", () => {
    const rig = new RingRig({ slots: 8 });
    const reader = rig.attach();
    rig.puts(8);
    for (const sleeps of [1, 2]) {
      rig.writer.fallAsleep();
      for (let count = 0; count < 2; count += 1) {
        const taken = reader.tryTake();
        assert.ok(taken);
        reader.release(taken);
      }
      assert.equal(rig.roomRung, sleeps);
      rig.writer.wakeUp();
    }
    rig.writer.fallAsleep();
    rig.drain(reader);
    assert.equal(rig.roomRung, 3);
    rig.endWriter();
    rig.succeed().fallAsleep();
    reader.detach();
    assert.equal(rig.roomRung, 4, "and by a reader that leaves");
  });
});

describe("the number of a message", () => {
  it("changes nothing about the slot that is reserved, also before the first message", () => {
    for (const slots of [1, 2, 4]) {
      const rig = new RingRig({ slots, whenFull: "drop-oldest", firstPosition: 0 });
      const reader = rig.attach();
      assert.equal(rig.writer.reserve(), true);
      const { slot } = rig.writer;
      rig.writer.goTo(5);
      assert.equal(rig.writer.slot, slot);
      rig.writer.commit(plainMessage);
      const taken = reader.tryTake();
      assert.equal(taken?.slot, slot);
      assert.deepEqual([taken.sequence, taken.missed], [5, 5]);
    }
  });

  it("of the first message is known to readers of a new ring, which miss none before it", () => {
    for (const slots of [1, 2, 4])
      for (const lossy of [false, true]) {
        const rig = new RingRig({ slots });
        rig.writer.beginAt(5);
        const reader = rig.attach({ lossy });
        rig.writer.reserve();
        rig.writer.commit(plainMessage);
        const taken = reader.tryTake();
        assert.deepEqual([taken?.sequence, taken?.missed], [5, 0]);
      }
  });
});
