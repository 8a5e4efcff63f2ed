/** The order of waiting requests, and of turns. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FairQueue } from "../../../src/service/fair-queue.js";
import { Turns } from "../../../src/service/turns.js";

describe("FairQueue", () => {
  it("takes one item of each source in turn", () => {
    const queue = new FairQueue<string, number>();
    for (const item of [1, 2, 3, 4]) queue.push("much", item);
    queue.push("little", 10);
    queue.push("some", 20);
    queue.push("some", 21);
    assert.equal(queue.length, 7);
    const order = Array.from({ length: 8 }, () => queue.shift());
    assert.deepEqual(order, [1, 10, 20, 2, 21, 3, 4, undefined]);
    assert.equal(queue.length, 0);
  });

  it("removes items that are no longer wanted", () => {
    const queue = new FairQueue<string, number>();
    queue.push("a", 1);
    queue.push("a", 2);
    queue.push("b", 3);
    assert.deepEqual(
      [queue.delete("a", 1), queue.delete("a", 1), queue.delete("c", 1)],
      [true, false, false],
    );
    assert.deepEqual(queue.clear(), [2, 3]);
    assert.deepEqual([queue.length, queue.shift()], [0, undefined]);
  });
});

describe("Turns", () => {
  it("are given one at a time, in order", async () => {
    const turns = new Turns();
    const order: number[] = [];
    await turns.take();
    const others = [1, 2, 3].map((who) =>
      turns.take().then(() => {
        order.push(who);
        turns.end();
      }),
    );
    assert.equal(turns.tryTake(), false);
    turns.end();
    await Promise.all(others);
    assert.deepEqual(order, [1, 2, 3]);
    assert.equal(turns.areFree, true);
  });

  it("reject waiters and newcomers after close()", async () => {
    const turns = new Turns();
    await turns.take();
    const waiting = assert.rejects(turns.take(), /over/);
    turns.close(new Error("over"));
    await waiting;
    await assert.rejects(turns.take(), /over/);
    assert.equal(turns.tryTake(), false);
  });
});
