import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { POSITIONS_MAX, whenFullPolicies } from "../../../src/ring/channel-layout.js";
import { RingRig } from "../../support/ring/ring-rig.js";
import { duringAccess } from "../../support/ring/shared-accesses.js";

describe("room", () => {
  for (const whenFull of whenFullPolicies) {
    it(`is where no reader that is waited for holds the slot: ${whenFull}`, () => {
      const rig = new RingRig({ slots: 3, whenFull });
      rig.attach();
      const room = Array.from({ length: 5 }, () => rig.put() !== undefined);
      assert.deepEqual(room, whenFull === "drop-oldest" ? Array(5).fill(true) : [true, true, true, false, false]);
    });
  }

  it("is everywhere where nobody reads", () => {
    const rig = new RingRig({ slots: 1 });
    rig.puts(5);
    assert.deepEqual(rig.writer.liveReaders(), []);
  });

  it("comes back as far as readers give back, in whatever order", () => {
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

  it("is no matter of one reader alone", () => {
    const rig = new RingRig({ slots: 2 });
    const readers = [rig.attach({ place: 0 }), rig.attach({ place: 2 })] as const;
    rig.puts(2);
    rig.drain(readers[0]);
    assert.equal(rig.put(), undefined);
    rig.drain(readers[1]);
    assert.equal(rig.put(), 2);
    assert.equal(rig.writer.liveReaders().length, 2);
  });

  it("tells readers that are attached, how far they are behind, and who is waited for", () => {
    const rig = new RingRig({ slots: 4 });
    const [slow, lossy] = [rig.attach({ place: 0 }), rig.attach({ place: 2, mayBeOvertaken: true })];
    rig.beginPlace(1);
    rig.puts(3);
    rig.drain(lossy);
    assert.deepEqual(rig.writer.liveReaders(), [
      { place: 0, lease: rig.leases[0], behind: 3, isWaitedFor: true },
      { place: 2, lease: rig.leases[2], behind: 0, isWaitedFor: false },
    ]);
    slow.detach();
    assert.deepEqual(
      rig.writer.liveReaders().map(({ place }) => place),
      [2],
    );
  });

  it("stays reserved, though a reader that comes too late claims the slot for a moment", () => {
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

describe("slots that are held by readers that may be overtaken", () => {
  it("are passed over, however often the ring goes round", () => {
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

  it("are not passed over where all are held", () => {
    const rig = new RingRig({ slots: 3, whenFull: "drop-oldest" });
    const readers = [rig.attach({ place: 0 }), rig.attach({ place: 1 })] as const;
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

  it("are held by streams until these have done", () => {
    const rig = new RingRig({ slots: 1, whenFull: "drop-oldest" });
    const reader = rig.attach();
    rig.puts(1);
    const taken = reader.tryTake();
    assert.ok(taken);
    reader.release(taken, { signal: (value) => assert.equal(value, 1) });
    assert.equal(rig.put(), undefined);
    const pending: number[][] = [];
    rig.writer.pendingHolds((...each) => pending.push(each));
    assert.deepEqual(pending, [[0, 1]]);
    rig.pages[0]?.setDone(1);
    assert.equal(rig.put(), 1);
  });
});

describe("what streams give back", () => {
  it("is room, with what is to be waited for", () => {
    const rig = new RingRig({ slots: 2 });
    const reader = rig.attach();
    rig.puts(2);
    const [first, second] = [reader.tryTake(), reader.tryTake()];
    assert.ok(first && second);
    const order: number[] = [];
    const signal = (value: number) => order.push(value);
    reader.release(second, { signal });
    assert.deepEqual(order, [], "in the order of their positions");
    reader.release(first, { signal });
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

describe("what streams give back, where positions were passed over", () => {
  it("is waited for, though the message lies further back", () => {
    const rig = new RingRig({ slots: 2 });
    const reader = rig.attach();
    rig.puts(2);
    const [first, second] = [reader.tryTake(), reader.tryTake()];
    assert.ok(first && second);
    reader.release(first, { signal: () => {} });
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

describe("readers whose words make no sense", () => {
  const nonsense = [
    ["released", -1n],
    ["released", 100n],
    ["released", 2n ** 63n - 1n],
    ["gpuReleased", 100n],
    ["state", 9n],
  ] as const;
  for (const [word, value] of nonsense) {
    it(`are turned away, rung for, and nobody else: ${word} is ${value}`, () => {
      const rig = new RingRig({ slots: 2 });
      const bad = rig.attach({ place: 0 });
      const good = rig.attach({ place: 1 });
      rig.scribble(0, word, value);
      rig.puts(2);
      assert.equal(rig.put(), undefined, "the other is waited for");
      assert.deepEqual([rig.control.expelled(0), rig.control.expelled(1)], [rig.leases[0], 0]);
      assert.deepEqual(rig.rung, [1, 0, 0]);
      for (const act of [() => bad.checkExpelled(), () => rig.drain(bad)]) {
        assert.throws(act, (error) => hasCode(error, "READER_EXPELLED"));
      }
      assert.deepEqual(rig.drain(good), [0, 1]);
      rig.endPlace(0);
      const next = rig.attach({ place: 0 });
      rig.puts(1);
      assert.deepEqual(rig.drain(next), [2], "the next at its place is not turned away");
    });
  }

  it("are turned away for claims beyond what is published", () => {
    const rig = new RingRig({ slots: 2, whenFull: "drop-oldest" });
    rig.attach();
    for (const claim of [50n, -50n]) {
      rig.scribble(0, "claims", claim, 3);
      rig.puts(2);
      assert.equal(rig.control.expelled(0), rig.leases[0]);
      rig.endPlace(0);
      rig.attach();
    }
  });

  it("are turned away where they take back what they gave", () => {
    const rig = new RingRig({ slots: 2 });
    rig.drain(rig.attach());
    rig.puts(1);
    rig.scribble(0, "released", 1);
    rig.puts(1);
    rig.scribble(0, "released", 0);
    rig.puts(1);
    assert.equal(rig.control.expelled(0), rig.leases[0]);
  });

  it("are looked at twice, since a place can change hands", () => {
    for (const mayAttach of [false, true]) {
      for (let at = 0, isReached = true; isReached; at += 1) {
        const rig = new RingRig({ slots: 2 });
        const reader = rig.attach();
        rig.puts(2);
        rig.drain(reader);
        rig.puts(1);
        isReached = duringAccess(
          at,
          () => {
            rig.endPlace(0);
            rig.beginPlace(0);
            if (mayAttach) rig.reader();
          },
          () => rig.put(),
        );
        assert.equal(rig.control.expelled(0), 0, `access ${at}`);
      }
    }
  });
});

describe("the end of the numbers", () => {
  it("is an error of the writer before it is anything else", () => {
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
    const reader = rig.attach({ place: 1 });
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

  it("ring for the next reader at a place, where the one before died asleep", () => {
    const rig = new RingRig({ slots: 8 });
    rig.attach().fallAsleep();
    rig.puts(1);
    assert.equal(rig.rung[0], 1);
    rig.endPlace(0);
    const next = rig.attach();
    rig.puts(1);
    assert.equal(rig.rung[0], 1, "awake");
    next.fallAsleep();
    rig.puts(1);
    assert.equal(rig.rung[0], 2);
  });

  it("ring once for each sleep of the writer, also for the next writer", () => {
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
