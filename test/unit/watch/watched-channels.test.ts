import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../src/base/limits.js";
import { watchable } from "../../../src/watch/watched-channels.js";
import { channelOf } from "../../support/messages.js";

/** What Linux lets a process map unless the system says otherwise. */
const VM_MAX_MAP_COUNT = 65_530;

function channels(count: number, readersMax: number) {
  const descriptor = channelOf({ readersMax });
  const facts = { published: true, hasMemory: true, descriptor };
  return Array.from({ length: count }, (_, object) => ({ object, name: `c${object}`, ...facts }));
}

describe("the channels that are watched", () => {
  it("need fewer mappings than a process can have, however many seats they have", () => {
    const { size } = watchable(channels(1145, limits.channelReadersMax));
    assert.ok(size > 700);
    assert.ok(size * (1 + limits.channelReadersMax) < (4 / 5) * VM_MAX_MAP_COUNT);
  });

  it("are as many as the limit says if they have the usual 8 seats", () => {
    assert.equal(watchable(channels(5000, 8)).size, limits.watchedChannelsMax);
  });
});
