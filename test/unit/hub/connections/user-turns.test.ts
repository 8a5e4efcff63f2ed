import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Job, UserTurns } from "../../../../src/hub/connections/user-turns.js";
import { until } from "../../../support/until.js";

/** Turns on a clock that only the jobs move, and what ran in which turn of the event loop. */
function rig() {
  const ran: string[] = [];
  const errors: unknown[] = [];
  let nowMs = 0;
  const turns = new UserTurns(
    (error) => errors.push(error),
    () => nowMs,
  );
  const job = (name: string, steps: number, costMs: number): Job => {
    let left = steps;
    return {
      step: () => {
        ran.push(name);
        nowMs += costMs;
        left -= 1;
        return left > 0;
      },
    };
  };
  return { turns, ran, errors, job };
}

describe("turns of users", () => {
  it("come at once, as long as there is work", () => {
    const { turns, ran, job } = rig();
    turns.ready(1, job("a", 3, 0));
    assert.deepEqual(ran, ["a", "a", "a"]);
    turns.close();
  });

  it("end after half a millisecond, and another user still has its own turn", async () => {
    const { turns, ran, job } = rig();
    turns.ready(1, job("flood", 1000, 0.125));
    assert.equal(ran.length, 4);
    turns.ready(2, job("other", 2, 0.1));
    assert.deepEqual(ran.slice(4), ["other", "other"]);
    await until("all is done", () => ran.length === 1002);
    turns.close();
  });

  it("are shared among one user's connections", () => {
    const { turns, ran, job } = rig();
    const starter: Job = {
      step: () => {
        for (const name of ["a", "b"]) turns.ready(1, job(name, 2, 0));
        return false;
      },
    };
    turns.ready(1, starter);
    assert.deepEqual(ran, ["a", "b", "a", "b"]);
    turns.close();
  });

  it("run work that another user's work made in the same turn of the loop", () => {
    const { turns, ran, job } = rig();
    const granted = job("granted", 1, 0);
    turns.ready(1, {
      step: () => {
        turns.ready(2, granted);
        return false;
      },
    });
    assert.deepEqual(ran, ["granted"]);
    turns.close();
  });

  it("delay only the user whose message took longer", async () => {
    const { turns, ran, job } = rig();
    turns.ready(1, job("slow", 1, 50));
    turns.ready(1, job("next", 1, 0));
    turns.ready(2, job("other", 1, 0));
    assert.deepEqual(ran, ["slow", "other"]);
    await until("it has its turn", () => ran.length === 3);
    turns.close();
  });

  it("give others as much time as a long message took, before its user's next one", async () => {
    const { turns, ran, job } = rig();
    turns.ready(1, job("slow", 1, 20));
    turns.ready(1, job("next", 1, 0));
    turns.ready(2, job("other", 100, 0.5));
    await until("all is done", () => ran.length === 102);
    assert.equal(ran.indexOf("next"), 1 + 20 / 0.5);
    turns.close();
  });

  it("go on after a job that throws, and log the error", () => {
    const { turns, ran, errors, job } = rig();
    turns.ready(1, {
      step: () => {
        throw new Error("no more");
      },
    });
    turns.ready(1, job("next", 1, 0));
    assert.deepEqual([ran, errors.length], [["next"], 1]);
    turns.close();
  });
});
