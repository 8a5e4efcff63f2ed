import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ratesBetween } from "../../../src/watch/rates.js";
import { snapshotOf, watchedChannel } from "./samples.js";

const reader = (received: number, missed = 0, place = 0) => ({
  ...(watchedChannel().readers[0] as NonNullable<(typeof readers)[number]>),
  place,
  received,
  missed,
});
const readers = watchedChannel().readers;

describe("ratesBetween", () => {
  it("has what grew per second, of channels and each of their readers", () => {
    const earlier = snapshotOf({
      channels: [watchedChannel({ committed: 100, dropped: 1, readers: [reader(90, 5)] })],
    });
    const later = snapshotOf({
      monotonicMs: 3000,
      channels: [watchedChannel({ committed: 120, dropped: 4, readers: [reader(100, 6)] })],
    });
    const { ms, channels } = ratesBetween(earlier, later);
    assert.equal(ms, 2000);
    assert.deepEqual(channels.get(2), {
      messages: 10,
      bytes: 200,
      dropped: 1.5,
      readers: new Map([[0, { received: 5, missed: 0.5 }]]),
    });
  });

  it("counts from 0 for a new channel and a new reader, and never below 0", () => {
    const earlier = snapshotOf({ channels: [watchedChannel({ readers: [reader(90)] })] });
    const later = snapshotOf({
      monotonicMs: 2000,
      channels: [
        watchedChannel({ readers: [reader(3), reader(7, 0, 1)] }),
        watchedChannel({ object: 9, committed: 4, meanBytes: undefined, readers: [] }),
      ],
    });
    const { channels } = ratesBetween(earlier, later);
    assert.deepEqual(
      [...(channels.get(2)?.readers ?? [])].map(([place, { received }]) => [place, received]),
      [
        [0, 0],
        [1, 7],
      ],
    );
    assert.deepEqual([channels.get(9)?.messages, channels.get(9)?.bytes], [4, undefined]);
  });

  it("leaves out channels that cannot be read", () => {
    const channels = [{ object: 2, name: "numbers", unreadable: "no" }];
    assert.equal(ratesBetween(snapshotOf(), snapshotOf({ channels })).channels.size, 0);
  });

  it("counts a service's answers without the hello of a new link", () => {
    const service = {
      name: "double",
      workers: 1,
      links: 2,
      offers: 1,
      underWay: 0,
      answered: 5,
      latency: undefined,
      replyChannels: [2, 9],
      offerChannels: [],
    };
    const earlier = snapshotOf({ channels: [watchedChannel({ committed: 10 })] });
    const later = snapshotOf({
      monotonicMs: 2000,
      services: [service],
      channels: [watchedChannel({ committed: 13 }), watchedChannel({ object: 9, committed: 5 })],
    });
    assert.equal(ratesBetween(earlier, later).services.get("double")?.answers, 7);
  });
});
