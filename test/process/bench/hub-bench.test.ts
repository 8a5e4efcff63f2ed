/**
 * Runs the benchmarks of a large hub and of a producer's death on a small scale, and checks no
 * times.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hubScale } from "../../../bench/hub/hub-scale.js";
import { pageSpeed } from "../../../bench/hub/page-speed.js";
import { producerKilled } from "../../../bench/hub/producer-killed.js";
import { restart } from "../../../bench/hub/restart.js";
import { watching } from "../../../bench/hub/watching.js";
import type { Row } from "../../../bench/measure.js";
import { checkLeaks } from "../../support/leak-check.js";

function goals(rows: readonly Row[]): (string | undefined)[] {
  for (const { what, value } of rows) assert.ok(Number.isFinite(value), `${what}: ${value}`);
  return rows.flatMap(({ goal, met }) => (met === undefined ? [] : [goal]));
}

describe("the benchmarks of the hub", () => {
  checkLeaks();

  it("measure a hub with its objects and clients, and check the goals", async () => {
    const rows = await hubScale({
      objects: 24,
      clients: 6,
      processes: 2,
      samples: 20,
      starts: 1,
      idleMs: 50,
    });
    assert.deepEqual(goals(rows), ["p99 under 2 ms", "under 200 MiB", "flat: at most 10 ms more"]);
    assert.ok(
      rows.some(
        ({ what }) => what === "open + close, 24 objects, 7 clients, one after the other, p99",
      ),
      "with one client more, which looks at the hub",
    );
    const compared = rows.filter(({ ratio }) => ratio !== undefined);
    assert.equal(compared.length, 3);
    for (const { comparedWith } of compared)
      assert.equal(comparedWith, "that with 10 objects and 1 client");
  });

  it("measure when consumers learn of a producer's end and its memory is free", async () => {
    const scale = { objects: 8, clients: 4, processes: 2, rounds: 2 };
    const rows = await producerKilled({ ...scale, arrays: 4, arrayBytes: 64 * 1024 });
    assert.deepEqual(goals(rows), ["within 100 ms of its pidfd", "within 100 ms of its pidfd"]);
  });

  it("measure what it costs to be watched", async () => {
    const channel = { rounds: 2, roundMs: 20, burst: 256 };
    const scale = { objects: 24, clients: 6, watchedMs: 50, channel };
    const cpu = "under 5 % of a core";
    const more = "all of it under 1 %";
    const wanted = [cpu, cpu, cpu, more, more, more, more];
    assert.deepEqual(goals(await watching(scale)), wanted);
  });

  it("measure how fast the dashboard's page is", async () => {
    const scale = { objects: 24, clients: 6, channels: 2, loads: 2, watchedMs: 50 };
    const rows = await pageSpeed({ ...scale, pictureBytes: 256 * 1024 });
    if (rows.some(({ missing }) => missing !== undefined)) return;
    const [frames, picture] = ["at least 30", "under 200 ms"];
    const wanted = ["under 200 kB", "under 1000 ms", frames, frames, picture];
    assert.deepEqual(goals(rows), wanted);
  });

  it("measure how long a keeper takes to restart a hub", async () => {
    const rows = await restart({ objects: 24, clients: 6, processes: 2 });
    assert.deepEqual(goals(rows), ["under 1 s", "under 1 s"]);
  });
});
