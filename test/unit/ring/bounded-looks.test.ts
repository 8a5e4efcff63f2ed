/**
 * A writer that changes its words before each access of a reader. The reader's call ends all the
 * same. An honest writer, however fast, is not taken for a broken one.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import {
  type ChannelFacts,
  CLAIMS,
  control,
  flags,
  HEADERS_AT,
  header,
  headerStrideOf,
} from "../../../src/ring/channel-layout.js";
import type { ReadFrom } from "../../../src/ring/ring-reader.js";
import { RingRig } from "../../support/ring/ring-rig.js";
import { eachAccess } from "../../support/ring/shared-accesses.js";

/** More than the accesses of one look. */
const ACCESSES_OF_A_LOOK = 40;
const corrupt = (error: unknown) => hasCode(error, "CHANNEL_CORRUPT");

/** The words of the control file, for a writer that follows no rule. */
class WrongWords {
  readonly #words: BigInt64Array;
  readonly #facts: ChannelFacts;

  constructor(rig: RingRig) {
    this.#words = new BigInt64Array(rig.memory.control);
    this.#facts = rig.facts;
  }

  set(at: "published" | "limit", value: number): void {
    this.#words[control[at] / 8] = BigInt(value);
  }

  setIn(slot: number, at: "generation" | "passedOver" | "sequence", value: number): void {
    const begin = HEADERS_AT + slot * headerStrideOf(this.#facts.metaBytesMax);
    this.#words[(begin + header[at]) / 8] = BigInt(value);
  }
}

/** Runs the body, with `change` before each access. @returns the number of accesses */
function during(change: (count: number) => void, accessesMax: number, body: () => void): number {
  let accesses = 0;
  eachAccess((count) => {
    accesses = count + 1;
    assert.ok(accesses <= accessesMax, `it looks on and on: ${accesses} accesses`);
    change(count);
  }, body);
  return accesses;
}

const LOOKS = limits.channelLooksMax * ACCESSES_OF_A_LOOK;

describe("taking from a writer whose words change at each access", () => {
  it("ends when the writer is always faster than a lossy reader", () => {
    const rig = new RingRig({ slots: 4, whenFull: "drop-oldest" });
    const reader = rig.attach();
    const words = new WrongWords(rig);
    let limit = 4;
    const change = () => {
      limit += 9;
      words.set("published", limit);
      words.set("limit", limit);
      for (let slot = 0; slot < 4; slot += 1) words.setIn(slot, "generation", 2 ** 50);
    };
    during(change, LOOKS, () => assert.equal(reader.tryTake(), undefined));
    assert.ok(reader.isOutrun && reader.hasNext);
    assert.equal(reader.heldCount, 0);
    for (let claim = 0; claim < CLAIMS; claim += 1) assert.equal(rig.pages[0]?.claim(claim), 0);
  });

  it("ends when it passes over each position", () => {
    for (const lossy of [false, true]) {
      const rig = new RingRig({ slots: 4 });
      const reader = rig.attach({ lossy });
      const words = new WrongWords(rig);
      words.set("limit", 2 ** 40);
      words.set("published", 2 ** 40);
      const change = () => {
        words.set("limit", reader.position + 4);
        words.setIn(reader.position % 4, "passedOver", reader.position + 1);
      };
      during(change, LOOKS, () => assert.equal(reader.tryTake(), undefined));
      assert.ok(reader.isOutrun);
      assert.equal(reader.position, limits.channelLooksMax);
      assert.equal(rig.pages[0]?.released, limits.channelLooksMax, "and gives them back");
    }
  });

  it("ends when each message is lost", () => {
    const rig = new RingRig({ slots: 4 });
    const reader = rig.attach();
    const words = new WrongWords(rig);
    const change = () => {
      const slot = reader.position % 4;
      rig.control.setFlags(slot, flags.lost);
      words.setIn(slot, "sequence", reader.position);
      words.setIn(slot, "generation", reader.position + 1);
    };
    during(change, LOOKS, () => assert.equal(reader.tryTake(), undefined));
    assert.ok(reader.isOutrun);
    assert.equal(reader.missed, limits.channelLooksMax);
  });

  it("continues with the next call, and is not outrun by a writer that is quiet again", () => {
    const slots = 3 * limits.channelLooksMax;
    const rig = new RingRig({ slots });
    const reader = rig.attach();
    for (let count = 0; count < slots - 1; count += 1) {
      assert.ok(rig.writer.reserve());
      rig.writer.passOver();
    }
    rig.puts(1);
    const calls = [reader.tryTake(), reader.tryTake()];
    assert.deepEqual(calls, [undefined, undefined]);
    assert.ok(reader.isOutrun);
    assert.equal(reader.tryTake()?.sequence, 0);
    assert.equal(reader.tryTake(), undefined);
    assert.equal(reader.isOutrun, false);
  });

  it("says that it was expelled", () => {
    const rig = new RingRig({ slots: 4 });
    const reader = rig.attach();
    const words = new WrongWords(rig);
    rig.control.setExpelled(0, rig.leases[0] as number);
    const change = () => words.setIn(reader.position % 4, "passedOver", reader.position + 1);
    during(change, LOOKS, () =>
      assert.throws(
        () => reader.tryTake(),
        (error) => hasCode(error, "READER_EXPELLED"),
      ),
    );
  });
});

describe("attaching to a writer whose words change at each access", () => {
  const froms = ["next", "oldest", "latest"] as const;

  it("ends when the limit rises: only a reader that is waited for calls it corrupt", () => {
    for (const from of froms) {
      for (const lossy of [false, true]) {
        const rig = new RingRig({ slots: 4 });
        rig.puts(4);
        const words = new WrongWords(rig);
        const change = (count: number) => {
          words.set("published", 9 * count + 8);
          words.set("limit", 9 * count + 8);
        };
        during(change, LOOKS, () => {
          if (lossy) rig.attach({ from, lossy });
          else assert.throws(() => rig.attach({ from, lossy }), corrupt);
        });
      }
    }
  });

  it("looks at each header at most twice, and a few more, to find what comes first", () => {
    for (const from of froms) {
      const slots = 1024;
      const rig = new RingRig({ slots, firstPosition: 7 });
      const words = new WrongWords(rig);
      for (let slot = 0; slot < slots; slot += 1) words.setIn(slot, "generation", 1);
      const change = (count: number) => {
        words.set("published", 2 * slots + count);
        words.set("limit", 2 * slots + count + 1);
      };
      // "latest" looks for the message first: one more access for the limit at each header.
      const accessesMax = 4 * slots + LOOKS;
      during(change, accessesMax, () => rig.attach({ from, lossy: true }));
    }
  });

  it("ends at the end of all numbers, where a number plus one is the same number", () => {
    const last = Number.MAX_SAFE_INTEGER;
    for (let at = 0, accesses = 1; at < accesses; at += 1) {
      const rig = new RingRig({ slots: 4, firstPosition: 7 });
      const words = new WrongWords(rig);
      words.set("limit", last);
      const change = (count: number) => words.set("published", count === at ? 2 ** 62 : last);
      accesses = during(change, LOOKS, () => {
        try {
          rig.attach({ lossy: true });
        } catch (error) {
          if (!corrupt(error)) throw error;
        }
      });
    }
  });
});

describe("writing to readers whose claims change at each access", () => {
  it("passes over as many slots as can be held and a few more, and then has no free slot", () => {
    const slots = 4096;
    const rig = new RingRig({ slots, whenFull: "drop-oldest", readersMax: 1 });
    rig.attach();
    rig.puts(slots);
    const { writer } = rig;
    // Always the slot that the writer is about to write.
    const change = () => rig.scribble(0, "claims", writer.position - slots + 1);
    during(change, 100 * slots, () => assert.equal(writer.reserve(), false));
    assert.equal(writer.position - slots, CLAIMS + limits.channelLooksMax + 1);
    rig.scribble(0, "claims", 0);
    assert.ok(writer.reserve());
  });
});

describe("an honest writer that writes at each access of a reader", () => {
  /** The writer writes as many messages as there is room for. */
  const writes = (rig: RingRig, count: number) => () => {
    for (let index = 0; index < count; index += 1) rig.put();
  };
  const rings: readonly Partial<ChannelFacts>[] = [1, 4].flatMap((slots) => [
    { slots, whenFull: "drop-oldest" },
    { slots, whenFull: "wait" },
  ]);

  /** Each ring, mode, start and speed. */
  function eachCase(run: (rig: RingRig, from: ReadFrom, lossy: boolean, count: number) => void) {
    for (const ring of rings)
      for (const lossy of [false, true])
        for (const from of ["next", "oldest", "latest"] as const)
          for (const count of [1, 3, 9]) {
            const rig = new RingRig(ring);
            rig.puts(1);
            run(rig, from, lossy, count);
          }
  }

  it("is never corrupt for a reader that attaches, which then takes its messages", () => {
    eachCase((rig, from, lossy, count) => {
      rig.beginSeat(0);
      let reader: ReturnType<RingRig["reader"]> | undefined;
      const accessesMax = LOOKS + 8 * rig.facts.slots;
      during(writes(rig, count), accessesMax, () => {
        reader = rig.reader({ from, lossy });
      });
      assert.ok(reader);
      for (const _ of rig.drain(reader));
      rig.puts(1);
      assert.deepEqual(rig.drain(reader), [rig.writer.sequence - 1]);
    });
  });

  it("is never corrupt for a reader that takes, which has each message whole", () => {
    let outrun = 0;
    let took = 0;
    eachCase((rig, from, lossy, count) => {
      const reader = rig.attach({ from, lossy });
      during(writes(rig, count), LOOKS, () => {
        const taken = reader.tryTake();
        if (taken === undefined) return;
        took += 1;
        rig.assertIntact(taken);
        reader.release(taken);
      });
      if (reader.isOutrun) outrun += 1;
      for (const _ of rig.drain(reader));
      rig.puts(1);
      assert.deepEqual(rig.drain(reader), [rig.writer.sequence - 1]);
    });
    assert.ok(took > 0, "some calls take a message");
    assert.ok(outrun > 0, "in some calls the writer is faster at each look");
  });
});
