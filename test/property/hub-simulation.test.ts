/**
 * The hub's core serves thousands of clients that come, share, fail and die, and it crashes and
 * restarts itself. After each of 50,000 events it must agree with the model. `NIGHTLY=1` runs ten
 * million events, `SIMULATION_STEPS` that many. `SIMULATION_SEED=7` repeats a run.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nightly } from "../support/random.js";
import { runSeed, simulate } from "../support/simulation/runs.js";

const { SIMULATION_SEED, SIMULATION_STEPS } = process.env;

describe("the hub's core", () => {
  it("keeps its promises through any sequence of requests, failures, deaths, crashes and restarts", (t) => {
    if (SIMULATION_SEED !== undefined) {
      runSeed(Number(SIMULATION_SEED));
      return;
    }
    const steps = Number(SIMULATION_STEPS ?? (nightly ? 10_000_000 : 50_000));
    const report = simulate(steps, 1);
    t.diagnostic(JSON.stringify({ ...report, seeds: report.seeds.length }));
    assert.ok(report.steps >= steps);
  });
});
