import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { Mapping } from "../../../src/os/mapping.js";
import { createConstantFile, createMemoryFile } from "../../../src/os/memory-file.js";
import { judgeBarrier } from "../../../src/peer/group-barrier.js";
import * as layout from "../../../src/peer/group-layout.js";
import { GroupWords } from "../../../src/peer/group-words.js";
import { Disposables } from "../../support/disposables.js";
import { checkLeaks } from "../../support/leak-check.js";

const SIZE = 3;

describe("the layout of a group", () => {
  it("gives each word and each slot an offset of its own", () => {
    for (const size of [1, 2, 64, limits.groupSizeMax]) {
      const words = new Set<number>(Object.values(layout.headerWords));
      const slots = new Set<number>();
      for (let rank = 0; rank < size; rank += 1) {
        words.add(layout.wordIndex(rank, "arrived")).add(layout.wordIndex(rank, "ended"));
        for (const barrier of [6, 7]) {
          words.add(layout.gatheredIndex(rank, barrier));
          slots.add(layout.slotOffset(size, rank, barrier));
        }
      }
      assert.equal(words.size, 3 + 4 * size);
      assert.ok(Math.max(...words) * 8 < layout.wordsByteLength(size));
      assert.equal(slots.size, 2 * size);
      assert.ok(Math.min(...slots) >= layout.wordsByteLength(size));
      assert.equal(layout.groupByteLength(size), Math.max(...slots) + limits.gatherBytesMax);
      assert.equal(layout.groupByteLength(size) % 4096, 0);
    }
    assert.ok(BigInt(limits.gatherBytesMax) < layout.GATHERED_LENGTHS);
  });

  it("has the documented offsets", () => {
    assert.deepEqual(
      [layout.wordIndex(0, "arrived"), layout.wordIndex(2, "ended"), layout.gatheredIndex(1, 3)],
      [8, 25, 19],
    );
    assert.deepEqual(
      [layout.wordsByteLength(3), layout.slotOffset(3, 1, 1)],
      [256, 4096 + 3 * 65536],
    );
  });
});

describe("the words of a group", () => {
  let made = new Disposables();
  let ranks: GroupWords[];
  /** All words, as a member that breaks the rules sees them. */
  let raw: BigInt64Array;
  const members = [101, 102, 103].map((pid) => ({ pid, startTicks: 0, pidNamespace: 1 }));
  checkLeaks(() => made.end());
  beforeEach(() => {
    made = new Disposables();
    const { memory, words } = GroupWords.create(SIZE);
    const own = (words: GroupWords) => {
      made.add({ [Symbol.dispose]: () => words.close() });
      return words;
    };
    made.add(memory);
    ranks = [
      own(words),
      own(GroupWords.open(memory, 1, SIZE)),
      own(GroupWords.open(memory, 2, SIZE)),
    ];
    const mapping = made.add(Mapping.shared(memory, layout.groupByteLength(SIZE), "read-write"));
    const view = mapping.view(0, layout.wordsByteLength(SIZE));
    raw = new BigInt64Array(view.buffer, view.byteOffset, view.byteLength / 8);
  });

  function at(rank: number): GroupWords {
    return ranks[rank] as GroupWords;
  }

  /** "waiting", "complete", or the failure as `CODE rank`, with `!` if the others must be told. */
  function judged(rank: number, barrier: number, firstGone?: number): string {
    const group = { members, firstGone: () => firstGone };
    const verdict = judgeBarrier(at(rank), barrier, group, "meet");
    if (typeof verdict === "string") return verdict;
    const found = /^Cannot meet: rank (\d) \(process 10(\d)\)/.exec(verdict.failure.message);
    assert.equal(Number(found?.[2]), Number(found?.[1]) + 1, verdict.failure.message);
    return `${verdict.failure.code} ${found?.[1]}${verdict.end === undefined ? "" : `! ${verdict.end.reason} ${verdict.end.rank}`}`;
  }

  function arrive(barrier: number, ...who: number[]): void {
    for (const rank of who) at(rank).arrive(barrier);
  }

  it("complete a barrier when all have arrived, even if some are one barrier ahead", () => {
    arrive(1, 0, 1);
    assert.equal(judged(0, 1), "waiting");
    arrive(1, 2);
    assert.deepEqual(
      [judged(0, 1), judged(1, 1), judged(2, 1)],
      ["complete", "complete", "complete"],
    );
    arrive(2, 0, 1);
    assert.deepEqual([judged(2, 1), judged(0, 2)], ["complete", "waiting"]);
  });

  it("break a wait if a member died, but not if it had arrived with all others", () => {
    arrive(1, 0, 1);
    assert.equal(judged(0, 1, 2), "PEER_GONE 2! sawDeath 2");
    assert.equal(judged(0, 1, 1), "PEER_GONE 1! sawDeath 1", "also one that had arrived itself");
    arrive(1, 2);
    assert.equal(judged(0, 1, 2), "complete");
    arrive(2, 0);
    assert.equal(judged(0, 2, 2), "PEER_GONE 2! sawDeath 2");
  });

  it("stay broken for later members after one saw a death, even if the dead one had arrived", () => {
    arrive(1, 0, 1);
    at(0).end({ barrier: 1, reason: "sawDeath", rank: 1 });
    arrive(1, 2);
    assert.equal(judged(2, 1), "PEER_GONE 1");
  });

  it("break from the barrier on that a member missed because it left", () => {
    arrive(1, 0, 1, 2);
    at(2).end({ barrier: 2, reason: "left", rank: 2 });
    at(2).end({ barrier: 1, reason: "gaveUp", rank: 2 });
    assert.equal(judged(0, 1), "complete");
    arrive(2, 0);
    assert.equal(judged(0, 2), "PEER_GONE 2");
  });

  it("break if a member gave up, even if all arrive later, and report a death first", () => {
    arrive(1, 0, 1);
    at(1).end({ barrier: 1, reason: "gaveUp", rank: 1 });
    assert.equal(judged(0, 1), "BARRIER_BROKEN 1");
    assert.equal(judged(0, 1, 2), "PEER_GONE 2! sawDeath 2");
    arrive(1, 2);
    assert.equal(judged(2, 1), "BARRIER_BROKEN 1");
  });

  it("break, and tell the others, if a member writes an invalid word", () => {
    arrive(5, 0, 1, 2);
    for (const nonsense of [3n, 7n, 0n, -1n, 2n ** 63n - 1n, -(2n ** 63n)]) {
      raw[layout.wordIndex(2, "arrived")] = nonsense;
      assert.equal(judged(0, 5), "BARRIER_BROKEN 2! gaveUp 0", `arrived ${nonsense}`);
    }
    raw[layout.wordIndex(2, "arrived")] = 5n;
    const own = 5n * 4096n + 2n * 4n;
    for (const nonsense of [
      1n,
      8n,
      9n,
      own,
      own + 3n,
      own + 4n + 1n,
      own - 4n + 2n,
      -1n,
      -4087n,
      -(2n ** 63n),
    ]) {
      raw[layout.wordIndex(2, "ended")] = nonsense;
      assert.equal(judged(0, 5), "BARRIER_BROKEN 2! gaveUp 0", `ended ${nonsense}`);
    }
  });

  it("carry each value to that barrier only", () => {
    for (const barrier of [1, 2, 3]) {
      for (const rank of [0, 1, 2]) at(rank).give(barrier, Buffer.from(`${rank} in ${barrier}`));
      for (const rank of [0, 1, 2]) {
        assert.equal(
          Buffer.from(at(0).given(rank, barrier) ?? []).toString(),
          `${rank} in ${barrier}`,
        );
      }
      assert.equal(at(0).given(1, barrier + 2), undefined);
    }
    assert.equal(
      Buffer.from(at(0).given(2, 2) ?? []).toString(),
      "2 in 2",
      "the slot of the barrier before",
    );
    assert.equal(at(0).given(2, 1), undefined);
    const most = Buffer.alloc(limits.gatherBytesMax, 7);
    for (const rank of [0, 1, 2]) at(rank).give(4, most);
    for (const rank of [0, 1, 2]) assert.ok(most.equals(at(1).given(rank, 4) ?? Buffer.alloc(0)));
  });

  it("give no value if a member claims more bytes than a slot has", () => {
    for (const nonsense of [limits.gatherBytesMax + 1, 2 ** 20 - 1]) {
      raw[layout.gatheredIndex(1, 2)] = 2n * layout.GATHERED_LENGTHS + BigInt(nonsense);
      assert.equal(at(0).given(1, 2), undefined);
    }
    raw[layout.gatheredIndex(1, 2)] = -1n;
    assert.equal(at(0).given(1, 2), undefined);
  });

  it("throw CLOSED after close()", () => {
    const words = at(2);
    words.close();
    words.close();
    for (const use of [() => words.arrive(1), () => words.arrived(0), () => words.given(0, 1)]) {
      assert.throws(use, (error) => hasCode(error, "CLOSED"));
    }
  });

  it("refuse any other memory", () => {
    const refused = (error: unknown) => hasCode(error, "INVALID_DESCRIPTOR");
    const byteLength = layout.groupByteLength(SIZE);
    using blank = createMemoryFile("blank", byteLength);
    assert.throws(() => GroupWords.open(blank, 1, SIZE), refused);
    using small = createMemoryFile("small", 4096);
    assert.throws(() => GroupWords.open(small, 1, SIZE), refused);
    using constant = createConstantFile("constant", new Uint8Array(10));
    assert.throws(() => GroupWords.open(constant, 1, SIZE), refused);
    for (const [index, value] of [
      [layout.headerWords.magic, 1n],
      [layout.headerWords.version, 2n],
      [layout.headerWords.size, 4n],
    ] as const) {
      const { memory, words } = GroupWords.create(SIZE);
      const mapping = Mapping.shared(memory, byteLength, "read-write");
      const view = mapping.view(0, 64);
      new BigInt64Array(view.buffer, view.byteOffset, 8)[index] = value;
      assert.throws(() => GroupWords.open(memory, 1, SIZE), refused);
      mapping.close();
      words.close();
      memory.close();
    }
  });
});
