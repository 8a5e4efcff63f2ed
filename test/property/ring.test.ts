/** Compares a ring with plain lists, under any operations in any order. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type ChannelFacts, control, POSITIONS_MAX, page } from "../../src/ring/channel-layout.js";
import { nightly, seedOfRun } from "../support/random.js";
import type { RingCommand } from "../support/ring/ring-commands.js";
import { RingModel } from "../support/ring/ring-model.js";
import { RingRig } from "../support/ring/ring-rig.js";

const SEATS = 3;
const seat = fc.nat(SEATS - 1);
const from = fc.constantFrom("latest", "oldest", "next" as const);
const huge = fc.constantFrom(2n ** 40n + 2n ** 53n, 2n ** 63n - 1n, 2n ** 62n);

const nonsense = fc.oneof(
  fc.record({
    word: fc.constant("released"),
    value: fc.oneof(huge, fc.constantFrom(-1n, -(2n ** 63n))),
  }),
  fc.record({ word: fc.constantFrom("gpuReleased", "claims"), value: huge }),
  fc.record({ word: fc.constant("state"), value: fc.constantFrom(3n, 255n, 2n ** 32n - 1n) }),
);

/**
 * Generates commands.
 * @param lossy the readers' modes: in one run all readers are waited for
 */
function commands(lossy: fc.Arbitrary<boolean>): fc.Arbitrary<RingCommand[]> {
  const simple = <T extends string>(...names: T[]) => fc.record({ do: fc.constantFrom(...names) });
  const seated = <T extends string>(...names: T[]) =>
    fc.record({ do: fc.constantFrom(...names), seat });
  const attach = fc.record({ do: fc.constant("attach"), seat, from, lossy });
  const release = fc.record({
    do: fc.constant("release"),
    seat,
    which: fc.nat(7),
    byStream: fc.boolean(),
  });
  const hoard = [
    ...Array(9).fill(simple("put")),
    ...Array(12).fill(seated("take")),
    attach,
    release,
  ];
  const arbitraries = [
    ...Array(6).fill(simple("put")),
    ...Array(4).fill(seated("take")),
    ...Array(3).fill(release),
    ...Array(2).fill(attach),
    simple("passOver", "drop", "sleepWriter", "wakeWriter"),
    seated("sleep", "wake", "finishStream"),
    fc.oneof(
      { weight: 3, arbitrary: seated("finishStream") },
      { weight: 1, arbitrary: seated("detach", "die") },
    ),
    fc.oneof(
      { weight: 1, arbitrary: fc.record({ do: fc.constant("dieTaking"), seat, at: fc.nat(12) }) },
      {
        weight: 2,
        arbitrary: fc.record({
          do: fc.constant("writerDies"),
          at: fc.nat(30),
          unfinished: fc.nat(3),
        }),
      },
      {
        weight: 1,
        arbitrary: nonsense.chain((what) =>
          fc.record({
            do: fc.constant("nonsense"),
            seat,
            word: fc.constant(what.word),
            value: fc.constant(what.value),
          }),
        ),
      },
    ),
  ];
  const list = (arbitraries: readonly fc.Arbitrary<unknown>[]) =>
    fc.array(fc.oneof(...(arbitraries as fc.Arbitrary<RingCommand>[])), {
      maxLength: 120,
      size: "max",
    });
  // WHY the second list: it has readers that keep what they take.
  return fc.oneof(
    { weight: 5, arbitrary: list(arbitraries) },
    { weight: 1, arbitrary: list(hoard) },
  );
}

function run(
  facts: Partial<ChannelFacts>,
  list: readonly RingCommand[],
  seen: Map<string, number>,
): void {
  const rig = new RingRig({ readersMax: SEATS, ...facts });
  // Counters of sleeps and writers wrap around in this test.
  new Uint32Array(rig.memory.control)[control.asleep / 4] = 2 ** 32 - 3;
  rig.control.setEpoch(2 ** 32 - 2);
  rig.writer = rig.newWriter();
  for (const buffer of rig.memory.pages) new Uint32Array(buffer)[page.asleep / 4] = 2 ** 32 - 4;
  const model = new RingModel(rig);
  for (const command of list) model.apply(command);
  model.end();
  for (const [what, count] of model.seen) seen.set(what, (seen.get(what) ?? 0) + count);
}

const EVERYWHERE = [
  "put",
  "no room",
  "taken",
  "passed over",
  "attached from latest",
  "attached from oldest",
  "attached from next",
  "rung for a reader",
  "rung for the writer",
  "a reader dies",
  "a reader dies in the middle",
  "a writer dies in the middle",
  "a writer follows another",
  "nonsense",
  "expelled",
  "given back by a stream",
];

const OVERTAKEN = [
  "held slots are passed over",
  "taken after some were missed",
  "some missed before the first",
  "nothing says what comes first",
  "holds too many",
];

describe("a ring under any operations", () => {
  const seed = seedOfRun();
  const numRuns = nightly ? 20_000 : 600;
  const slots = fc.oneof(fc.integer({ min: 1, max: 9 }), fc.constantFrom(10, 12, 17));
  const start = fc.constantFrom(0, 5, 2 ** 32 - 7, 2 ** 52);
  for (const whenFull of ["wait", "drop-oldest", "drop-newest", "error"] as const) {
    it(`behaves like plain lists: ${whenFull} (seed ${seed})`, () => {
      const seen = new Map<string, number>();
      const list = commands(fc.boolean());
      fc.assert(
        fc.property(slots, start, list, (slots, firstPosition, list) =>
          run({ whenFull, slots, firstPosition }, list, seen),
        ),
        { numRuns, seed, includeErrorInReport: true },
      );
      const wanted = [...EVERYWHERE, ...OVERTAKEN];
      if (whenFull !== "drop-oldest") wanted.push("the writer waits for a stream");
      for (const what of wanted) assert.ok(seen.has(what), `no run came to: ${what}`);
    });
  }

  it(`refuses to write beyond the last position (seed ${seed})`, () => {
    const seen = new Map<string, number>();
    const list = commands(fc.constant(false));
    fc.assert(
      fc.property(slots, fc.integer({ min: 0, max: 30 }), list, (slots, before, list) =>
        run({ slots, firstPosition: POSITIONS_MAX - before }, list, seen),
      ),
      { numRuns: nightly ? 5000 : 200, seed, includeErrorInReport: true },
    );
    assert.ok(seen.has("the end of the numbers"));
  });
});
