import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import { CudaIpcError, hasCode } from "../../../src/base/errors.js";

const never = new Promise<never>(() => {});

describe("Deadline", () => {
  it("refuses invalid time limits", () => {
    for (const timeoutMs of [-1, Number.NaN]) {
      assert.throws(() => new Deadline("work", { timeoutMs }, 1000), RangeError);
    }
    assert.throws(() => new Deadline("work", { timeoutMs: "5" as never }, 1000), {
      name: "TypeError",
      message: 'timeoutMs must be a number of milliseconds from 0 to Infinity, not "5"',
    });
  });

  it("keeps a limit that is longer than a timer can be", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const controller = new AbortController();
    const { signal } = controller;
    const deadline = new Deadline("work", { timeoutMs: 2 ** 33, signal }, 1000);
    const ended = assert.rejects(
      deadline.race(never, () => {}),
      (error) => hasCode(error, "ABORTED"),
    );
    t.mock.timers.tick(2 ** 31);
    t.mock.timers.tick(2 ** 31);
    controller.abort();
    await ended;
  });

  it("throws TIMEOUT with the attempt, and ABORTED with the reason", () => {
    assert.throws(
      () => new Deadline('open "frame"', { timeoutMs: 0 }, 1000).check(),
      (error) =>
        hasCode(error, "TIMEOUT") && error.message === 'Cannot open "frame": not done within 0 ms',
    );
    const signal = AbortSignal.abort(new Error("changed my mind"));
    assert.throws(
      () => new Deadline("work", { signal }, 1000).check(),
      (error) => hasCode(error, "ABORTED") && (error.cause as Error).message === "changed my mind",
    );
    new Deadline("work", {}, Number.POSITIVE_INFINITY).check();
  });

  it("has no limit and no signal after unlimited()", () => {
    new Deadline("work", { timeoutMs: 0, signal: AbortSignal.abort() }, 0).unlimited().check();
  });

  it("returns the promise's own result", async () => {
    const deadline = new Deadline("work", { signal: new AbortController().signal }, 60_000);
    const giveUp = () => assert.fail("given up");
    assert.equal(await deadline.race(Promise.resolve(5), giveUp), 5);
    const failure = new Error("no");
    await assert.rejects(deadline.race(Promise.reject(failure), giveUp), failure);
  });

  it("gives up once, at the time limit, at an abort, or at once if it is over already", async () => {
    for (const options of [
      { timeoutMs: 5 },
      { signal: AbortSignal.timeout(5) },
      { signal: AbortSignal.abort() },
    ]) {
      let gaveUp = 0;
      const race = new Deadline("work", options, Number.POSITIVE_INFINITY).race(never, () => {
        gaveUp += 1;
      });
      // A signal's own timer does not keep the process alive.
      const alive = setTimeout(() => {}, 10_000);
      await assert.rejects(race, (error) =>
        hasCode(error, options.signal === undefined ? "TIMEOUT" : "ABORTED"),
      );
      clearTimeout(alive);
      assert.equal(gaveUp, 1);
    }
  });

  it("handles a late failure after it gave up at once", async () => {
    const unhandled: unknown[] = [];
    const note = (error: unknown) => unhandled.push(error);
    process.on("unhandledRejection", note);
    const late = new Promise<never>((_, reject) =>
      setImmediate(() => reject(new Error("too late"))),
    );
    const deadline = new Deadline(
      "work",
      { signal: AbortSignal.abort() },
      Number.POSITIVE_INFINITY,
    );
    await assert.rejects(
      deadline.race(late, () => {}),
      (error) => hasCode(error, "ABORTED"),
    );
    for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", note);
    assert.deepEqual(unhandled, []);
  });

  it("gives a step the remaining time, or the step's own default if it has no limit", () => {
    const { signal } = new AbortController();
    assert.deepEqual(new Deadline("work", { signal }, Number.POSITIVE_INFINITY).rest(), {
      signal,
      timeoutMs: undefined,
    });
    const { timeoutMs = 0 } = new Deadline("work", { timeoutMs: 60_000 }, 1).rest();
    assert.ok(timeoutMs > 0 && timeoutMs <= 60_000, String(timeoutMs));
  });

  it("renames the error of a step only if it ended the step itself", () => {
    const step = new Deadline("copy", { timeoutMs: 0 }, 1);
    const over = new Deadline("work", { timeoutMs: 0, signal: AbortSignal.abort("why") }, 1);
    const timedOut = over.named(step.timedOut()) as Error;
    assert.deepEqual(
      [timedOut.message, (timedOut.cause as Error).message],
      ["Cannot work: not done within 0 ms", "Cannot copy: not done within 0 ms"],
    );
    const aborted = over.named(step.aborted()) as Error;
    assert.deepEqual([aborted.message, aborted.cause], ["Cannot work: aborted", "why"]);
    const open = new Deadline("work", {}, Number.POSITIVE_INFINITY);
    for (const error of [step.timedOut(), step.aborted(), new RangeError("x"), undefined]) {
      assert.equal(open.named(error), error);
    }
    const other = new RangeError("x");
    assert.equal(over.named(other), other);
  });

  it("removes its listener from a signal that outlives the wait", async () => {
    const { signal } = new AbortController();
    let listeners = 0;
    const counting = new Proxy(signal, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== "function") return member;
        if (name === "addEventListener") listeners += 1;
        if (name === "removeEventListener") listeners -= 1;
        return member.bind(target);
      },
    });
    const deadline = new Deadline("work", { signal: counting, timeoutMs: 5 }, 1000);
    await deadline.race(Promise.resolve(), () => {});
    assert.equal(listeners, 0);
    await assert.rejects(deadline.race(never, () => {}));
    assert.equal(listeners, 0);
  });

  it("is over for a timer that fires a millisecond early", (t) => {
    let nowMs = 1000;
    t.mock.method(performance, "now", () => nowMs);
    const deadline = new Deadline("wait", { timeoutMs: 50 }, 0);
    nowMs += 48.9;
    assert.equal(deadline.isOver, false);
    nowMs += 0.2;
    assert.equal(deadline.isOver, true);
    const late = new CudaIpcError("TIMEOUT", "Cannot take a step");
    assert.match(String(deadline.named(late)), /Cannot wait: not done within 50 ms/);
  });
});
