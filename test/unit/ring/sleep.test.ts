/**
 * No side sleeps for ever. In one half of the tests a side falls asleep as a channel does (asleep,
 * one more look, wait for the bell), with operations of the other side at each access. In the other
 * half a side works while the other falls asleep at each access.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ReadFrom } from "../../../src/ring/ring-reader.js";
import { RingRig } from "../../support/ring/ring-rig.js";
import { Watched } from "../../support/ring/ring-watch.js";
import { duringAccess } from "../../support/ring/shared-accesses.js";

/** A writer that waits for a free slot, as `loan` does. */
class WaitingWriter {
  readonly #rig: RingRig;
  #rungBefore = 0;
  isAsleep = false;

  constructor(rig: RingRig) {
    this.#rig = rig;
  }

  /** Writes until no slot is free, and then sleeps. */
  go(atMost = Number.POSITIVE_INFINITY): void {
    for (let count = 0; count < atMost; count += 1) {
      if (this.#rig.put() !== undefined) continue;
      this.#rungBefore = this.#rig.roomRung;
      this.#rig.writer.fallAsleep();
      this.isAsleep = !this.#rig.writer.reserve();
      if (this.isAsleep) return;
      this.#rig.writer.wakeUp();
    }
  }

  /** Fails if the writer sleeps for ever: a slot is free and nobody rings. */
  assertAwakeOrFull(): void {
    if (!this.isAsleep || this.#rig.roomRung > this.#rungBefore) return;
    this.#rig.writer.wakeUp();
    assert.equal(
      this.#rig.writer.reserve(),
      false,
      "a writer sleeps while there is room, and nobody rang for it",
    );
  }
}

/** A reader that waits for messages, as `next` does. */
class WaitingReader {
  readonly #rig: RingRig;
  readonly watched: Watched;
  readonly #seat: number;
  #rungBefore = 0;
  isAsleep = false;

  constructor(rig: RingRig, watched: Watched, seat: number) {
    this.#rig = rig;
    this.watched = watched;
    this.#seat = seat;
  }

  /** Takes and releases until there is no message, and then sleeps. */
  go(): void {
    for (;;) {
      this.watched.drain();
      this.#rungBefore = this.#rig.rung[this.#seat] as number;
      this.watched.reader.fallAsleep();
      this.isAsleep = this.watched.take() === undefined;
      if (this.isAsleep) return;
      this.watched.reader.wakeUp();
    }
  }

  /** The bell has rung for this sleep. */
  get isRung(): boolean {
    return (this.#rig.rung[this.#seat] as number) > this.#rungBefore;
  }

  assertAwakeOrDone(): void {
    if (!this.isAsleep || this.isRung) return;
    this.watched.reader.wakeUp();
    assert.equal(
      this.watched.take(),
      undefined,
      "a reader sleeps while there is a message, and nobody rang for it",
    );
  }
}

interface Scene {
  readonly rig: RingRig;
  readonly writer: WaitingWriter;
  readonly reader: WaitingReader;
}

function scene(slots: number, whenFull: "wait" | "drop-oldest", lossy: boolean): Scene {
  const rig = new RingRig({ slots, whenFull });
  const watched = new Watched(rig, rig.attach({ lossy }));
  return { rig, writer: new WaitingWriter(rig), reader: new WaitingReader(rig, watched, 0) };
}

function atEach(play: (at: number) => boolean): void {
  let at = 0;
  while (play(at)) at += 1;
  assert.ok(at > 0, "there were accesses");
}

const KINDS = [
  { whenFull: "wait", lossy: false },
  { whenFull: "wait", lossy: true },
  { whenFull: "drop-oldest", lossy: true },
] as const;

describe("no side sleeps for ever", () => {
  for (const { whenFull, lossy } of KINDS) {
    for (const slots of [1, 2, 3, 4]) {
      const name = `${whenFull}, ${slots} slots, ${lossy ? "lossy" : "waited for"}`;

      it(`a writer that falls asleep while a reader releases: ${name}`, () => {
        for (const held of [1, slots]) {
          atEach((at) => {
            const { rig, writer, reader } = scene(slots, whenFull, lossy);
            for (let index = 0; index < held; index += 1) {
              rig.puts(1);
              reader.watched.take();
            }
            const isReached = duringAccess(
              at,
              () => reader.watched.drain(),
              () => writer.go(slots + 2),
            );
            writer.assertAwakeOrFull();
            return isReached;
          });
        }
      });

      it(`a writer falls asleep while a reader takes, releases or detaches: ${name}`, () => {
        const operations: ((watched: Watched) => void)[] = [
          (watched) => watched.release(),
          (watched) => watched.drain(),
          (watched) => {
            if (watched.take()) watched.release(watched.held.length - 1);
          },
          (watched) => watched.detach(),
        ];
        for (const operation of operations) {
          for (const [before, isHeld] of [
            [0, false],
            [1, false],
            [1, true],
            [slots, false],
            [slots, true],
          ] as const) {
            // Some operations, such as the take of a known message, have no access.
            let reached = 0;
            for (let at = 0, isReached = true; isReached; at += 1) {
              const { rig, writer, reader } = scene(slots, whenFull, lossy);
              rig.puts(before);
              if (isHeld) reader.watched.take();
              isReached = duringAccess(
                at,
                () => writer.go(2 * slots + 2),
                () => operation(reader.watched),
              );
              if (isReached) reached += 1;
              // WHY only without held slots: a reader may hold slots for long.
              if (reader.watched.held.length === 0) writer.assertAwakeOrFull();
            }
            assert.ok(reached > 0 || !isHeld);
          }
        }
      });

      for (const from of ["next", "latest", "oldest"] satisfies ReadFrom[]) {
        it(`a writer falls asleep while a reader attaches from ${from}: ${name}`, () => {
          for (const before of [0, 1, slots, slots + 1]) {
            atEach((at) => {
              const { rig, writer, reader: first } = scene(slots, whenFull, lossy);
              first.watched.detach();
              rig.puts(before);
              let second: WaitingReader | undefined;
              const isReached = duringAccess(
                at,
                () => writer.go(slots + 2),
                () => {
                  const watched = new Watched(rig, rig.attach({ seat: 1, from, lossy }));
                  second = new WaitingReader(rig, watched, 1);
                },
              );
              second?.go();
              second?.assertAwakeOrDone();
              writer.assertAwakeOrFull();
              return isReached;
            });
          }
        });
      }

      it(`a reader that falls asleep while the writer writes: ${name}`, () => {
        for (const count of [1, slots + 1]) {
          atEach((at) => {
            const { rig, writer, reader } = scene(slots, whenFull, lossy);
            const isReached = duringAccess(
              at,
              () => {
                for (let index = 0; index < count; index += 1) rig.put();
              },
              () => reader.go(),
            );
            reader.assertAwakeOrDone();
            writer.assertAwakeOrFull();
            return isReached;
          });
        }
      });

      it(`a reader falls asleep while the writer writes or passes over: ${name}`, () => {
        for (const isPassedOver of [false, true]) {
          atEach((at) => {
            const { rig, writer, reader } = scene(slots, whenFull, lossy);
            const isReached = duringAccess(
              at,
              () => reader.go(),
              () => {
                if (isPassedOver && rig.writer.reserve()) rig.writer.passOver();
                else writer.go(1);
              },
            );
            reader.assertAwakeOrDone();
            if (isPassedOver && reader.isAsleep && !reader.isRung) {
              assert.equal(
                reader.watched.reader.position,
                rig.writer.position,
                "a reader sleeps before what was passed over",
              );
            }
            return isReached;
          });
        }
      });
    }
  }

  it("a reader that is not lossy skips positions passed over because others hold them", () => {
    const rig = new RingRig({ slots: 2 });
    const sleeper = rig.attach({ seat: 0 });
    const holder = rig.attach({ seat: 1, lossy: true });
    rig.puts(1);
    holder.tryTake();
    rig.drain(sleeper);
    sleeper.fallAsleep();
    for (let round = 0; round < 6; round += 1) {
      // The loan is passed over each time.
      if (rig.writer.reserve()) rig.writer.passOver();
      if (rig.rung[0] === 0) continue;
      rig.rung[0] = 0;
      sleeper.wakeUp();
      assert.equal(sleeper.tryTake(), undefined);
      assert.equal(sleeper.position, rig.writer.position);
      sleeper.fallAsleep();
    }
    assert.ok(rig.writer.reserve(), "the slot that is not held is free");
  });

  it("a reader that is not lossy skips passed-over positions if the one free slot is taken", () => {
    let passedOver = 0;
    for (let at = 0, isReached = true; isReached; at += 1) {
      const rig = new RingRig({ slots: 2 });
      const sleeper = rig.attach({ seat: 0 });
      const holder = rig.attach({ seat: 1, lossy: true });
      rig.puts(2);
      rig.drain(sleeper);
      holder.tryTake();
      sleeper.fallAsleep();
      isReached = duringAccess(
        at,
        () => holder.tryTake(),
        () => rig.writer.reserve(),
      );
      if (rig.control.published === 2) continue;
      passedOver += 1;
      if (!rig.writer.reserve()) assert.equal(rig.rung[0], 1);
    }
    assert.ok(passedOver > 0);
  });
});
