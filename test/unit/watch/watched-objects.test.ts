/** What is known of a hub's objects after each answer of a hub that follows a script. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import type { HubLink } from "../../../src/client/connection/hub-link.js";
import { WatchedObjects } from "../../../src/watch/watched-objects.js";
import type { HeldObject } from "../../../src/wire/messages.js";
import { soon } from "../../support/until.js";
import { watchedObject } from "./samples.js";

type Answer = (fields: Record<string, unknown>) => unknown;

/** A link whose requests are answered by these functions, in order. */
function script(...answers: readonly (readonly [op: string, answer: Answer])[]) {
  const asked: [string, unknown][] = [];
  const link = {
    request: async (op: string, fields: Record<string, unknown>) => {
      const [wanted, answer] = answers[asked.length] ?? assert.fail(`${op} was not expected`);
      asked.push([op, fields]);
      assert.equal(op, wanted);
      return answer(fields);
    },
  };
  return { link: link as unknown as HubLink, asked };
}

const deadline = () => new Deadline("test", {}, 1000);

function held(object: number, name: string, leases = 1): HeldObject {
  const { device: _, heldBytes: __, holders, ...entry } = watchedObject({ object, name, leases });
  return { ...entry, holders: [...holders] };
}

const changes = (fields: object) => ({
  objects: [],
  ended: [],
  next: 7,
  more: false,
  reset: false,
  ...fields,
});

const known = (objects: WatchedObjects) =>
  [...objects.all()].map(({ name, leases }) => `${name} ${leases}`);

describe("WatchedObjects", () => {
  it("lists everything once, then applies changes, also of several answers", async () => {
    const { link, asked } = script(
      ["changes", () => changes({ reset: true })],
      ["list", () => ({ objects: [held(1, "a"), held(2, "b")], next: null })],
      ["changes", () => changes({ objects: [held(1, "a", 3)], next: 9, more: true })],
      ["changes", () => changes({ objects: [held(3, "c")], ended: [2], next: 12 })],
    );
    const objects = new WatchedObjects();
    await objects.update(link, deadline());
    assert.deepEqual(known(objects), ["a 1", "b 1"]);
    await objects.update(link, deadline());
    assert.deepEqual(known(objects), ["a 3", "c 1"]);
    assert.deepEqual(asked, [
      ["changes", {}],
      ["list", { holders: true }],
      ["changes", { since: 7 }],
      ["changes", { since: 9 }],
    ]);
  });

  it("gives each page of a list as long as an answer may take, and waits for none longer", async () => {
    const limits: number[] = [];
    const linkOf = (isSecondAnswered: boolean) => {
      const request = async (op: string, { after }: { after?: string }, limit: Deadline) => {
        if (op === "changes") return changes({ reset: true });
        limits.push(limit.timeoutMs);
        if (after === undefined) return { objects: [held(1, "a")], next: "a" };
        if (!isSecondAnswered) return limit.race(new Promise(() => {}), () => {});
        return { objects: [held(2, "b")], next: null };
      };
      return { request } as unknown as HubLink;
    };
    const objects = new WatchedObjects();
    await objects.update(linkOf(true), new Deadline("test", {}, 5000));
    assert.deepEqual(known(objects), ["a 1", "b 1"]);
    assert.deepEqual(limits, [5000, 5000]);
    const stopped = new WatchedObjects().update(linkOf(false), new Deadline("test", {}, 100));
    await assert.rejects(soon("it gives up", stopped, 20_000), { code: "TIMEOUT" });
  });

  it("uses no answer of another hub that came while the connection was replaced", async () => {
    const objects = new WatchedObjects();
    const { link } = script(
      ["changes", () => changes({ reset: true })],
      ["list", () => ({ objects: [held(1, "a")], next: null })],
      [
        "changes",
        () => {
          objects.distrust();
          return changes({ objects: [held(9, "of another hub")] });
        },
      ],
      ["changes", ({ since }) => (since === undefined ? changes({ reset: true }) : assert.fail())],
      ["list", () => ({ objects: [held(2, "b")], next: null })],
    );
    await objects.update(link, deadline());
    await objects.update(link, deadline());
    assert.deepEqual(known(objects), ["b 1"]);
  });

  it("refuses a hub that has more and more, and never goes on", async () => {
    const { link } = script(
      ["changes", () => changes({ reset: true })],
      ["list", () => ({ objects: [], next: null })],
      ["changes", () => changes({ more: true, next: 7 })],
    );
    const objects = new WatchedObjects();
    await objects.update(link, deadline());
    await assert.rejects(objects.update(link, deadline()), { code: "INVALID_MESSAGE" });
  });

  it("keeps what it knows of an object without a name while that stays the same", async () => {
    const listed = (leases: number): [string, Answer] => {
      const objects = [1, 2].map((object) => ({
        ...held(object, "frame", object === 1 ? 1 : leases),
        nameless: true,
      }));
      return ["list", () => ({ objects, next: null })];
    };
    const { link } = script(listed(1), listed(2));
    const objects = new WatchedObjects();
    await objects.updateNameless(link, deadline(), 2);
    const [same, changed] = objects.nameless();
    await objects.updateNameless(link, deadline(), 2);
    const [first, second] = objects.nameless();
    assert.deepEqual([first === same, second === changed, second?.leases], [true, false, 2]);
    await objects.updateNameless(link, deadline(), 0);
    assert.deepEqual(objects.nameless(), []);
  });
});
