/** Runs the benchmark of machines at a small scale, and checks its report, not its times. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { machines } from "../../../bench/machines.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";

it("the benchmark of machines measures copies, messages, and the bridges' own cost", {
  skip: skipWithoutEngines,
}, async () => {
  const byteLength = 8 * 1024 * 1024;
  const scale = { byteLength, rounds: 1, roundTrips: 20, idleMs: 100, names: 2 };
  const rows = await machines("host", scale);
  for (const { what, value, missing } of rows)
    assert.ok(missing !== undefined || value >= 0, `${what}: ${value}`);
  const ours = rows.filter(({ what }) =>
    /^an array of 8 MiB|KiB|carried channels, p50$/.test(what),
  );
  assert.equal(ours.length, 4);
  assert.ok(ours.every(({ value }) => value > 0));
  const relayed = rows.find(({ what }) => what.startsWith("the wake-ups of two bridges in C"));
  assert.ok(relayed?.missing !== undefined || Number(relayed?.value) > 0);
  assert.ok(rows.some(({ what, met }) => what.startsWith("memory of a bridge") && met));
});
