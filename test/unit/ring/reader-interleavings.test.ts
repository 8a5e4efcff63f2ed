/** Each operation of a reader, with operations of the writer at each access to shared words. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ReadFrom } from "../../../src/ring/ring-reader.js";
import { RingRig } from "../../support/ring/ring-rig.js";
import {
  assertOutcomes,
  type Case,
  cases,
  type Play,
  playAll,
  puts,
  scene,
} from "../../support/ring/ring-scenes.js";
import { assertGoesOn, Watched } from "../../support/ring/ring-watch.js";

const THE_NEXT = "the next";
const LATER = "a later one, and the others count as missed";
const NOTHING = "nothing";

describe("a reader's operation, interleaved with the writer's", () => {
  const writes = [1, 2, 7];

  it("takes a message", () => {
    for (const lossy of [false, true]) {
      const outcomes = new Map<string, number>();
      for (const each of cases()) {
        if (each.lossy !== lossy) continue;
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
      assertOutcomes(outcomes, lossy ? [NOTHING, THE_NEXT, LATER] : [NOTHING, THE_NEXT]);
    }
  });

  it("takes while a message is written but not yet committed", () => {
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

  it("passes a slot that another reader holds while the writer passes it again and again", () => {
    for (const slots of [2, 3, 5]) {
      for (const count of [1, slots - 1, slots, 2 * slots + 1]) {
        playAll(() => {
          const rig = new RingRig({ slots, whenFull: "drop-oldest" });
          const holder = new Watched(rig, rig.attach({ seat: 1 }));
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

  it("releases messages", () => {
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

  it("detaches", () => {
    for (const each of cases()) {
      playAll(() => {
        const { rig, watched } = scene(each);
        return {
          body: () => watched.detach(),
          other: () => puts(rig, each.slots + 1),
          outcome: () => {
            assert.ok(puts(rig, each.slots + 1), "the writer waits for nobody any more");
            return "";
          },
        };
      }, new Map());
    }
  });

  const AS_ASKED = "begins where it asked to";
  const LATE = "its first is later, since the writer had gone on";
  /**
   * Attaches while the writer writes `count` messages; then it writes `more` before the first take.
   */
  const attaches = (each: Case, from: ReadFrom, count: number, more: number): Play => {
    const { rig } = scene({ ...each, taken: 0, lossy: true });
    rig.endSeat(0);
    const wanted = beginOf(rig, from);
    let watched: Watched | undefined;
    return {
      body: () => {
        watched = new Watched(rig, rig.attach({ seat: 1, from, lossy: each.lossy }));
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
    it(`attaches from ${from} while the writer extends its limit or writes`, () => {
      const outcomes = new Map<string, number>();
      for (const each of cases()) {
        for (const count of [0, ...writes]) {
          for (const more of [0, each.slots + 2])
            playAll(() => attaches(each, from, count, more), outcomes);
        }
      }
      assertOutcomes(outcomes, [AS_ASKED, LATE]);
    });
  }
});

/** The first sequence number of a reader that attaches now. */
function beginOf(rig: RingRig, from: ReadFrom): number {
  const { sequence } = rig.writer;
  if (from === "next") return sequence;
  return from === "latest"
    ? sequence - 1
    : sequence - (rig.facts.slots - (rig.control.limit - rig.control.published));
}
