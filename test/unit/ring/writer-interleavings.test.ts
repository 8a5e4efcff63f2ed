/** A write, with operations of readers at each access to shared words. */
import { describe, it } from "node:test";
import type { RingRig } from "../../support/ring/ring-rig.js";
import { assertOutcomes, cases, playAll, scene } from "../../support/ring/ring-scenes.js";
import { assertGoesOn, Watched } from "../../support/ring/ring-watch.js";

describe("a writer's operation, interleaved with readers'", () => {
  const others: Record<
    string,
    (rig: RingRig, watched: Watched, come: (watched: Watched) => void) => void
  > = {
    "a take": (_, watched) => watched.take(),
    "a take and its release": (_, watched) => {
      if (watched.take() !== undefined) watched.release(watched.held.length - 1);
    },
    "a release": (_, watched) => watched.release(),
    "a release out of order": (_, watched) => watched.release(Math.max(0, watched.held.length - 1)),
    "another that attaches": (rig, _, come) =>
      come(new Watched(rig, rig.attach({ seat: 1, from: "oldest" }))),
    "another that attaches and takes": (rig, _, come) => {
      const other = new Watched(rig, rig.attach({ seat: 1, from: "oldest" }));
      other.take();
      come(other);
    },
    "two more that take, one of which is lossy": (rig, _, come) => {
      for (const seat of [1, 2]) {
        const other = new Watched(rig, rig.attach({ seat, from: "oldest", lossy: seat === 1 }));
        other.take();
        other.take();
        come(other);
      }
    },
    "a leave, and another that attaches in its seat and takes": (rig, watched, come) => {
      watched.detach();
      rig.endSeat(0);
      const other = new Watched(rig, rig.attach({ seat: 0, from: "latest", lossy: true }));
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
              // A second write, because the writer looks at the readers only now and then.
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
