import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { acquireIn, acquireInAsync, releaseAll } from "../../../src/base/scope.js";

describe("acquireIn", () => {
  it("releases newest first when the acquisition throws", () => {
    const released: string[] = [];
    assert.throws(
      () =>
        acquireIn((scope) => {
          scope.own("a", () => released.push("a"));
          scope.own("b", () => released.push("b"));
          throw new Error("no");
        }),
      /^Error: no$/,
    );
    assert.deepEqual(released, ["b", "a"]);
  });

  it("releases nothing when the acquisition returns", () => {
    const released: string[] = [];
    const value = acquireIn((scope) => scope.own("a", () => released.push("a")));
    assert.equal(value, "a");
    assert.deepEqual(released, []);
  });

  it("throws the first error with a failed release attached", async () => {
    const attempt = acquireInAsync(async (scope) => {
      scope.defer(() => {
        throw new Error("undo failed");
      });
      throw new Error("first");
    });
    await assert.rejects(attempt, (error: AggregateError) => {
      assert.equal(error.message, "first");
      assert.deepEqual(
        error.errors.map((inner: Error) => inner.message),
        ["first", "undo failed"],
      );
      return true;
    });
  });
});

describe("releaseAll", () => {
  it("tries every release before it throws", () => {
    let tried = 0;
    const fail = () => {
      tried += 1;
      throw new Error(`release ${tried}`);
    };
    assert.throws(() => releaseAll([fail, fail, fail]), AggregateError);
    assert.equal(tried, 3);
  });
});
