import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MetricsSource } from "../../../../src/watch/metrics/metrics-source.js";
import type { Snapshot } from "../../../../src/watch/snapshot.js";
import { snapshotOf } from "../samples.js";

/** A watch whose looks end when the test says so. */
class ManualWatch {
  readonly looks: PromiseWithResolversOf<Snapshot>[] = [];

  snapshot(): Promise<Snapshot> {
    let resolve: (snapshot: Snapshot) => void = () => {};
    let reject: (error: Error) => void = () => {};
    const promise = new Promise<Snapshot>((onValue, onError) => {
      [resolve, reject] = [onValue, onError];
    });
    this.looks.push({ promise, resolve, reject });
    return promise;
  }
}

interface PromiseWithResolversOf<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
}

describe("the source of metrics", () => {
  it("looks once for all scrapes that come meanwhile and shortly after", async () => {
    const watch = new ManualWatch();
    const source = new MetricsSource(watch, new AbortController().signal);
    const scrapes = Array.from({ length: 1000 }, () => source.text());
    watch.looks[0]?.resolve(snapshotOf());
    const texts = await Promise.all([...scrapes, source.text()]);
    assert.equal(new Set(texts).size, 1);
    assert.match(texts[0] ?? "", /^cuda_ipc_up 1$/m);
    assert.equal(watch.looks.length, 1);
  });

  it("looks again after a look that failed, and never at the same time", async (t) => {
    t.mock.method(performance, "now", () => nowMs);
    let nowMs = 0;
    const watch = new ManualWatch();
    const source = new MetricsSource(watch, new AbortController().signal);
    const first = source.text();
    nowMs = 10_000;
    const second = source.text();
    assert.equal(watch.looks.length, 1, "the first look is still under way");
    watch.looks[0]?.reject(new Error("broken"));
    for (const scrape of [first, second]) await assert.rejects(scrape, /broken/);
    nowMs = 20_000;
    const third = source.text();
    watch.looks[1]?.resolve(snapshotOf());
    assert.match(await third, /^cuda_ipc_look_duration_seconds 0$/m);
  });
});
