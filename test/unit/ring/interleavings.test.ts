/**
 * Each operation of one side, with whole operations of the other at each access to shared words in it. What may come of it is listed; all
 * that is listed does come, in one of the cases.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type WhenFull, whenFullPolicies } from "../../../src/ring/channel-layout.js";
import type { ReadFrom } from "../../../src/ring/ring-reader.js";
import { RingRig } from "../../support/ring/ring-rig.js";
import { assertGoesOn, Watched } from "../../support/ring/ring-watch.js";
import { duringAccess } from "../../support/ring/shared-accesses.js";

interface Scene {
  readonly rig: RingRig;
  readonly watched: Watched;
}

interface Case {
  readonly slots: number;
  readonly whenFull: WhenFull;
  readonly mayBeOvertaken: boolean;
  /** Messages that are there before. */
  readonly before: number;
  /** Messages that the reader has taken of them, and holds. */
  readonly taken: number;
}

function* cases(): Generator<Case> {
  for (const slots of [1, 2, 3, 4, 5]) {
    for (const whenFull of whenFullPolicies) {
      // WHY one length: to the ring they are as "wait".
      if ((whenFull === "error" || whenFull === "drop-newest") && slots !== 3) continue;
      for (const mayBeOvertaken of whenFull === "drop-oldest" ? [true] : [false, true]) {
        for (const before of new Set([0, 1, slots - 1, slots])) {
          // WHY only up to three in all ways: with more slots nothing else happens, and it takes long.
          for (const taken of new Set(slots > 3 ? [before] : [0, Math.min(1, before), before])) {
            yield { slots, whenFull, mayBeOvertaken, before, taken };
          }
        }
      }
    }
  }
}

function scene({ slots, whenFull, mayBeOvertaken, before, taken }: Case): Scene {
  // Not from the start of a lap.
  const rig = new RingRig({ slots, whenFull, firstPosition: slots * 3 + 1 });
  rig.puts(slots + 1);
  const watched = new Watched(rig, rig.attach({ mayBeOvertaken }));
  rig.puts(before);
  for (let index = 0; index < taken; index += 1) watched.take();
  return { rig, watched };
}

/** Puts up to so many messages. @returns whether all found room */
function puts(rig: RingRig, count: number): boolean {
  for (let index = 0; index < count; index += 1) if (rig.put() === undefined) return false;
  return true;
}

interface Play {
  body(): void;
  other(): void;
  /** What came of it. */
  outcome(): string;
}

/** Plays it with the other side at each access. @returns what came of it, each with how often */
function playAll(make: () => Play, outcomes: Map<string, number>): void {
  for (let at = 0; ; at += 1) {
    const play = make();
    const isReached = duringAccess(at, play.other, play.body);
    // What is known already is taken without an access: `at` can be 0 here.
    if (!isReached) return;
    const outcome = play.outcome();
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  }
}

function assertOutcomes(outcomes: ReadonlyMap<string, number>, allowed: readonly string[]): void {
  assert.deepEqual([...outcomes.keys()].sort(), [...allowed].sort());
}

const THE_NEXT = "the next";
const LATER = "a later one, and the others count as missed";
const NOTHING = "nothing";

describe("a reader's operation, with the writer's in the middle", () => {
  const writes = [1, 2, 7];

  it("takes", () => {
    for (const mayBeOvertaken of [false, true]) {
      const outcomes = new Map<string, number>();
      for (const each of cases()) {
        if (each.mayBeOvertaken !== mayBeOvertaken) continue;
        for (const count of writes) {
          playAll(() => {
            const { rig, watched } = scene(each);
            const expected =
              watched.sequences.length === 0
                ? rig.writer.sequence - each.before
                : (watched.sequences.at(-1) as number) + 1;
            let got: number | undefined;
            return {
              body: () => {
                got = watched.take()?.sequence;
              },
              other: () => puts(rig, count),
              outcome: () => {
                watched.assertIntact();
                assertGoesOn(rig, [watched]);
                if (got === undefined) return NOTHING;
                assert.ok(got >= expected, "nothing comes twice");
                return got === expected ? THE_NEXT : LATER;
              },
            };
          }, outcomes);
        }
      }
      assertOutcomes(outcomes, mayBeOvertaken ? [NOTHING, THE_NEXT, LATER] : [NOTHING, THE_NEXT]);
    }
  });

  it("takes while a message is being written, which is committed later", () => {
    for (const each of cases()) {
      playAll(() => {
        const { rig, watched } = scene(each);
        let isWriting = false;
        return {
          body: () => {
            watched.take();
            watched.take();
          },
          other: () => {
            puts(rig, 1);
            isWriting = rig.writer.reserve();
            if (isWriting) rig.fill();
          },
          outcome: () => {
            watched.assertIntact();
            if (isWriting) assert.ok(rig.writer.reserve(), "what is reserved stays reserved");
            if (isWriting) rig.put();
            assertGoesOn(rig, [watched]);
            return "";
          },
        };
      }, new Map());
    }
  });

  it("goes past a slot that another holds, while the writer goes past it again and again", () => {
    for (const slots of [2, 3, 5]) {
      for (const count of [1, slots - 1, slots, 2 * slots + 1]) {
        playAll(() => {
          const rig = new RingRig({ slots, whenFull: "drop-oldest" });
          const holder = new Watched(rig, rig.attach({ place: 1 }));
          const watched = new Watched(rig, rig.attach());
          puts(rig, slots);
          holder.take();
          watched.drain();
          puts(rig, 1);
          return {
            body: () => watched.take(),
            other: () => puts(rig, count),
            outcome: () => {
              watched.assertIntact();
              holder.assertIntact();
              assertGoesOn(rig, [watched, holder]);
              return "";
            },
          };
        }, new Map());
      }
    }
  });

  it("gives back", () => {
    const outcomes = new Map<string, number>();
    for (const each of cases()) {
      if (each.taken === 0) continue;
      for (const which of new Set([0, each.taken - 1])) {
        playAll(() => {
          const { rig, watched } = scene(each);
          let isAll = false;
          return {
            body: () => watched.release(which),
            other: () => {
              isAll = puts(rig, each.slots + 1);
            },
            outcome: () => {
              watched.assertIntact();
              assertGoesOn(rig, [watched]);
              return isAll ? "room for all" : "no room for all";
            },
          };
        }, outcomes);
      }
    }
    assertOutcomes(outcomes, ["room for all", "no room for all"]);
  });

  it("leaves", () => {
    for (const each of cases()) {
      playAll(() => {
        const { rig, watched } = scene(each);
        return {
          body: () => watched.detach(),
          other: () => puts(rig, each.slots + 1),
          outcome: () => {
            assert.ok(puts(rig, each.slots + 1), "nobody is waited for any more");
            return "";
          },
        };
      }, new Map());
    }
  });

  const AS_ASKED = "begins where it asked to";
  const LATE = "its first is later, since the writer had gone on";
  /** Attaches, and the writer goes on by so many more before the reader takes its first message. */
  const attaches = (each: Case, from: ReadFrom, count: number, more: number): Play => {
    const { rig } = scene({ ...each, taken: 0, mayBeOvertaken: true });
    rig.endPlace(0);
    const wanted = beginOf(rig, from);
    let watched: Watched | undefined;
    return {
      body: () => {
        watched = new Watched(rig, rig.attach({ place: 1, from, mayBeOvertaken: each.mayBeOvertaken }));
      },
      other: () => (count === 0 ? rig.writer.reserve() : puts(rig, count)),
      outcome: () => {
        assert.ok(watched);
        puts(rig, more);
        const first = watched.take()?.sequence ?? rig.writer.sequence;
        assertGoesOn(rig, [watched]);
        if (from !== "latest") assert.ok(first >= wanted, "nothing from before");
        return first <= wanted ? AS_ASKED : LATE;
      },
    };
  };
  for (const from of ["latest", "oldest", "next"] as const) {
    it(`attaches from ${from}, while the writer extends its limit or writes`, () => {
      const outcomes = new Map<string, number>();
      for (const each of cases()) {
        for (const count of [0, ...writes]) {
          for (const more of [0, each.slots + 2]) playAll(() => attaches(each, from, count, more), outcomes);
        }
      }
      assertOutcomes(outcomes, [AS_ASKED, LATE]);
    });
  }
});

/** The sequence of the message with which a reader begins that comes now. */
function beginOf(rig: RingRig, from: ReadFrom): number {
  const { sequence } = rig.writer;
  if (from === "next") return sequence;
  return from === "latest" ? sequence - 1 : sequence - (rig.facts.slots - (rig.control.limit - rig.control.published));
}

describe("a writer's operation, with readers' in the middle", () => {
  const others: Record<string, (rig: RingRig, watched: Watched, come: (watched: Watched) => void) => void> = {
    "a take": (_, watched) => watched.take(),
    "a take and its release": (_, watched) => {
      if (watched.take() !== undefined) watched.release(watched.held.length - 1);
    },
    "a release": (_, watched) => watched.release(),
    "a release out of order": (_, watched) => watched.release(Math.max(0, watched.held.length - 1)),
    "another that attaches": (rig, _, come) => come(new Watched(rig, rig.attach({ place: 1, from: "oldest" }))),
    "another that attaches and takes": (rig, _, come) => {
      const other = new Watched(rig, rig.attach({ place: 1, from: "oldest" }));
      other.take();
      come(other);
    },
    "two more that take, one of which may be overtaken": (rig, _, come) => {
      for (const place of [1, 2]) {
        const other = new Watched(rig, rig.attach({ place, from: "oldest", mayBeOvertaken: place === 1 }));
        other.take();
        other.take();
        come(other);
      }
    },
    "a leave, and another that attaches in its place and takes": (rig, watched, come) => {
      watched.detach();
      rig.endPlace(0);
      const other = new Watched(rig, rig.attach({ place: 0, from: "latest", mayBeOvertaken: true }));
      other.take();
      come(other);
    },
  };
  const WRITTEN = "written";
  const NO_ROOM = "no room";
  for (const [name, other] of Object.entries(others)) {
    it(`puts: ${name}`, () => {
      const outcomes = new Map<string, number>();
      for (const each of cases()) {
        playAll(() => {
          const { rig, watched } = scene(each);
          const readers = new Set([watched]);
          let put: number | undefined;
          return {
            body: () => {
              put = rig.put();
              // A second one, since the writer looks at the readers only now and then.
              rig.put();
            },
            other: () => {
              other(rig, watched, (one) => readers.add(one));
              if (name.startsWith("a leave")) readers.delete(watched);
            },
            outcome: () => {
              assertGoesOn(rig, [...readers]);
              return put === undefined ? NO_ROOM : WRITTEN;
            },
          };
        }, outcomes);
      }
      assertOutcomes(outcomes, [WRITTEN, NO_ROOM]);
    });
  }
});
