import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { CLAIMS, flags } from "../../../src/ring/channel-layout.js";
import { plainMessage, RingRig } from "../../support/ring/ring-rig.js";

const corrupt = (error: unknown) => hasCode(error, "CHANNEL_CORRUPT");

describe("the first position of a reader", () => {
  for (const lossy of [false, true]) {
    it(`is the one it asked for: ${lossy ? "lossy" : "waited for"}`, () => {
      const rig = new RingRig({ slots: 4 });
      const first = (["latest", "oldest", "next"] as const).map((from, seat) =>
        rig.attach({ seat, from, lossy }),
      );
      assert.deepEqual(
        first.map((reader) => rig.drain(reader)),
        [[], [], []],
      );
      rig.puts(1);
      assert.deepEqual(
        first.map((reader) => rig.drain(reader)),
        [[0], [0], [0]],
        "of an empty ring, all get the first",
      );
      for (const [seat, reader] of first.entries()) {
        reader.detach();
        rig.endSeat(seat);
      }
      rig.puts(9);
      const wanted = { latest: [9], oldest: [6, 7, 8, 9], next: [] };
      for (const from of ["latest", "oldest", "next"] as const) {
        assert.deepEqual(rig.drain(rig.attach({ from, lossy })), wanted[from], from);
        rig.endSeat(0);
      }
    });
  }

  it("is the latest message even if later positions were passed over", () => {
    const rig = new RingRig({ slots: 4 });
    rig.puts(6);
    for (let count = 0; count < 2; count += 1) {
      rig.writer.reserve();
      rig.writer.passOver();
    }
    assert.deepEqual(rig.drain(rig.attach({ from: "latest" })), [5]);
  });
});

describe("taking", () => {
  it("counts overwritten messages exactly", () => {
    const rig = new RingRig({ slots: 4 });
    const reader = rig.attach({ lossy: true });
    rig.puts(1);
    assert.deepEqual(rig.drain(reader), [0]);
    rig.puts(9);
    const taken = reader.tryTake();
    assert.deepEqual(
      [taken?.sequence, taken?.missed, reader.missed, reader.received],
      [6, 5, 5, 2],
    );
  });

  it("counts what was overwritten after the last message, once", () => {
    const rig = new RingRig({ slots: 1 });
    const reader = rig.attach({ lossy: true });
    rig.puts(1);
    assert.deepEqual(rig.drain(reader), [0]);
    rig.puts(3);
    // The writer may now overwrite the last message, and ends without doing so.
    assert.ok(rig.writer.reserve());
    assert.deepEqual(rig.drain(reader), []);
    assert.deepEqual([reader.hasNext, reader.missed], [false, 0]);
    for (let count = 0; count < 2; count += 1) {
      reader.countRest();
      assert.deepEqual([reader.received, reader.missed, rig.pages[0]?.missed], [1, 3, 3]);
    }
  });

  it("counts nothing at the end if the writer died before it had counted its last message", () => {
    const rig = new RingRig();
    const reader = rig.attach();
    rig.puts(3);
    assert.deepEqual(rig.drain(reader), [0, 1, 2]);
    rig.control.setSequence(2);
    reader.countRest();
    assert.deepEqual([reader.received, reader.missed], [3, 0]);
  });

  it("counts nothing at the end if it does not know what comes first", () => {
    const rig = new RingRig({ firstPosition: 5 });
    rig.puts(1);
    const reader = rig.attach();
    reader.countRest();
    assert.equal(reader.missed, 0);
  });

  it("counts messages that died with their writer as missed before the next", () => {
    const rig = new RingRig({ slots: 8 });
    const reader = rig.attach();
    for (const readyAt of [0, 1, 2, 4, 5]) rig.put({ readyAt });
    assert.equal(reader.tryTake()?.sequence, 0);
    rig.endWriter();
    rig.succeed(2);
    rig.puts(1);
    const rest = [reader.tryTake(), reader.tryTake(), reader.tryTake()];
    assert.deepEqual(
      rest.map((taken) => [taken?.sequence, taken?.missed]),
      [
        [1, 0],
        [2, 0],
        [5, 2],
      ],
    );
    assert.deepEqual([reader.missed, reader.received], [2, 4]);
  });

  it("counts a message that is lost after it was taken", () => {
    const rig = new RingRig({ slots: 8 });
    const reader = rig.attach();
    rig.puts(2);
    const first = reader.tryTake();
    assert.ok(first);
    reader.lose(first);
    assert.deepEqual(
      [reader.tryTake()?.missed, reader.missed, reader.received, reader.heldCount],
      [1, 1, 1, 1],
    );
  });

  it("holds at most 8 slots if it is lossy, and shows its counts to observers", () => {
    const rig = new RingRig({ slots: 16 });
    const reader = rig.attach({ lossy: true });
    rig.puts(12);
    const taken = Array.from({ length: CLAIMS }, () => reader.tryTake());
    assert.deepEqual([reader.mayHoldMore, reader.isHeldUp], [false, false]);
    assert.throws(
      () => reader.tryTake(),
      (error) => hasCode(error, "LIMIT_EXCEEDED"),
    );
    assert.ok(taken[3]);
    reader.release(taken[3]);
    assert.equal(reader.tryTake()?.sequence, 8);
    assert.equal(rig.pages[0]?.received, 8);
  });

  it("gives a slot back once", () => {
    const rig = new RingRig();
    const reader = rig.attach();
    rig.puts(1);
    const taken = reader.tryTake();
    assert.ok(taken);
    reader.release(taken);
    assert.throws(
      () => reader.release(taken),
      (error) => hasCode(error, "CLOSED"),
    );
  });

  it("gives slots back by a stream after a refusal, and none twice", () => {
    const rig = new RingRig();
    const reader = rig.attach();
    rig.puts(3);
    const [first, second, third] = [reader.tryTake(), reader.tryTake(), reader.tryTake()];
    assert.ok(first && second && third);
    const told: number[] = [];
    let refusals = 1;
    const signal = (value: number) => {
      if (value === 2 && refusals-- > 0) throw new Error("refused");
      told.push(value);
    };
    reader.release(second, signal);
    assert.throws(() => reader.release(first, signal), /refused/);
    reader.release(third, signal);
    assert.deepEqual(told, [1, 2, 3]);
    assert.equal(rig.pages[0]?.released, 3);
  });
});

describe("a writer with invalid words", () => {
  it("is refused if a slot is past the reader's position", () => {
    for (const lossy of [false, true]) {
      for (const position of [4, 2 ** 31 + 1, 2 ** 32, 2 ** 52, 2 ** 53 + 2, 2 ** 62 + 4096]) {
        for (const word of ["commit", "passOver"] as const) {
          const rig = new RingRig({ slots: 4 });
          const reader = rig.attach({ lossy });
          rig.control[word](0, position);
          assert.throws(() => reader.tryTake(), corrupt, `${word} ${position}`);
        }
      }
    }
  });

  it("is refused if it publishes beyond its limit or before its first position", () => {
    for (const published of [9, 11, 2 ** 52 + 1, 2 ** 53 + 2, 2 ** 62 + 4096]) {
      const rig = new RingRig({ slots: 4, firstPosition: 10 });
      rig.control.publish(published);
      for (const from of ["latest", "oldest", "next"] as const)
        assert.throws(() => rig.attach({ from }), corrupt);
    }
  });

  it("is refused if its limit goes back", () => {
    const rig = new RingRig({ slots: 2, firstPosition: 10 });
    const reader = rig.attach({ lossy: true });
    rig.puts(2);
    for (const limit of [9, 2 ** 53, 2 ** 60]) {
      rig.control.setLimit(limit);
      assert.throws(() => reader.tryTake(), corrupt);
    }
  });

  it("is refused if its limit is far beyond what it has published", () => {
    const rig = new RingRig({ slots: 2 });
    const reader = rig.attach({ lossy: true });
    rig.puts(1);
    for (const limit of [5, 2 ** 60]) {
      rig.control.setLimit(limit);
      assert.throws(() => reader.tryTake(), corrupt);
    }
  });

  it("is refused for invalid headers", () => {
    const wrongs: ((rig: RingRig) => void)[] = [
      (rig) => rig.control.commit(1, 98),
      (rig) => rig.control.setHeader(1, 1, { ...plainMessage, byteLength: 65 }),
      (rig) => rig.control.setHeader(1, 1, { ...plainMessage, metaBytes: 33 }),
      (rig) => rig.control.setHeader(1, 1, { ...plainMessage, flags: 8 }),
      (rig) => rig.control.setHeader(1, 2 ** 53, plainMessage),
      (rig) => rig.control.setHeader(1, 0, plainMessage),
    ];
    for (const wrong of wrongs) {
      const rig = new RingRig();
      const reader = rig.attach();
      rig.puts(2);
      assert.equal(reader.tryTake()?.sequence, 0);
      wrong(rig);
      assert.throws(() => reader.tryTake(), corrupt);
    }
  });

  it("gives an expelled reader READER_EXPELLED instead", () => {
    const rig = new RingRig({ slots: 2 });
    const reader = rig.attach();
    rig.puts(2);
    assert.equal(reader.tryTake()?.sequence, 0);
    rig.scribble(0, "state", 9);
    rig.puts(2);
    assert.throws(
      () => reader.tryTake(),
      (error) => hasCode(error, "READER_EXPELLED"),
    );
  });
});

describe("flags", () => {
  it("can be read again", () => {
    const rig = new RingRig();
    rig.put({ flags: flags.json });
    rig.control.setFlags(0, flags.json | flags.lost);
    assert.equal(rig.control.flags(0), 5);
  });
});
