/**
 * Compares a client's accounting of a link with rings of the same size. Neither ring may be full
 * when one more request may go.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { LinkWindow, slotsOf } from "../../../src/service/link-window.js";

/** A ring. Its owner releases slots in order, whichever it finishes first. */
class Ring {
  readonly #slots: { done: boolean }[] = [];
  readonly #size: number;

  constructor(size: number) {
    this.#size = size;
  }

  write(): { done: boolean } {
    assert.ok(this.#slots.length < this.#size, `the ring of ${this.#size} is full`);
    const slot = { done: false };
    this.#slots.push(slot);
    return slot;
  }

  giveBack(slot: { done: boolean }): void {
    slot.done = true;
    while (this.#slots[0]?.done) this.#slots.shift();
  }
}

const deeds = fc.array(
  fc.record({ what: fc.constantFrom("send", "cancel", "answer", "release"), which: fc.nat(20) }),
  {
    maxLength: 200,
    size: "max",
  },
);

describe("LinkWindow", () => {
  it("always has a free slot for a cancellation and a reply, in any order of events", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), deeds, (depth, all) => {
        const window = new LinkWindow(depth);
        const [requests, replies] = [new Ring(slotsOf(depth)), new Ring(slotsOf(depth))];
        const sent = new Map<number, { done: boolean }>();
        const held = new Map<number, { done: boolean }>();
        let last = 0;
        for (const { what, which } of all) {
          const number = [...sent.keys()][which % Math.max(1, sent.size)] ?? 0;
          if (what === "send" && window.canSend) {
            last += 1;
            sent.set(last, requests.write());
            window.sent(last);
          } else if (what === "cancel" && window.cancel(number))
            requests.giveBack(requests.write());
          else if (what === "answer" && sent.has(number)) {
            requests.giveBack(sent.get(number) as { done: boolean });
            sent.delete(number);
            held.set(window.answered(number) as number, replies.write());
          } else if (what === "release" && held.size > 0) {
            const place = [...held.keys()][which % held.size] as number;
            replies.giveBack(held.get(place) as { done: boolean });
            held.delete(place);
            window.givenBack(place);
          }
          assert.ok(sent.size <= depth);
          assert.equal(window.underWay, sent.size);
          assert.equal(window.held, held.size);
        }
      }),
    );
  });

  it("allows depth requests, and one more for each reply that was released", () => {
    const window = new LinkWindow(3);
    let number = 0;
    const send = () => {
      number += 1;
      window.sent(number);
    };
    while (window.canSend) send();
    assert.equal(number, 3);
    for (let done = 1; done <= 20; done += 1) {
      window.givenBack(window.answered(done) as number);
      assert.ok(window.canSend);
      send();
    }
  });

  it("refuses a reply to a request that is unknown or already answered", () => {
    const window = new LinkWindow(2);
    assert.equal(window.answered(1), undefined);
    window.sent(1);
    assert.equal(window.answered(1), 0);
    assert.equal(window.answered(1), undefined);
    assert.equal(window.cancel(1), false);
  });

  it("cancels a request once", () => {
    const window = new LinkWindow(2);
    window.sent(1);
    assert.equal(window.cancel(1), true);
    assert.equal(window.cancel(1), false);
  });
});
