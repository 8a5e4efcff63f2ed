import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { unheldAmong } from "../../../../src/cli/commands/gc.js";
import { watchedObject } from "../../watch/samples.js";

describe("what gc may remove", () => {
  const object = (name: string, ownerUid: number, unheldSinceMs: number | null) =>
    watchedObject({ name, ownerUid, unheldSinceMs, leases: unheldSinceMs === null ? 1 : 0 });
  const objects = [object("held", 7, null), object("own", 7, 100), object("other", 8, 100)];
  const names = (sinceMs: number, uid: number) =>
    unheldAmong(objects, sinceMs, uid).map(({ name }) => name);

  it("are objects of the same user that nobody holds, for root those of all users", () => {
    assert.deepEqual(names(100, 7), ["own"]);
    assert.deepEqual(names(100, 9), []);
    assert.deepEqual(names(100, 0), ["own", "other"]);
  });

  it("are objects that nobody has held since that time", () => {
    assert.deepEqual(names(99, 0), []);
    assert.deepEqual(names(101, 0), ["own", "other"]);
  });
});
