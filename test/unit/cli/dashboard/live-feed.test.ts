import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { eventsOf, eventText } from "../../../../src/cli/dashboard/live-feed.js";
import { lookAt } from "../../../../src/cli/top/view.js";
import type { WatchedObject } from "../../../../src/watch/snapshot.js";
import { snapshotOf, watchedObject } from "../../watch/samples.js";

function many(count: number): WatchedObject[] {
  return Array.from({ length: count }, (_, i) => watchedObject({ object: i + 1, name: `n${i}` }));
}

function events(objects: readonly WatchedObject[], sent: Map<number, WatchedObject>) {
  return [...eventsOf(lookAt(snapshotOf({ objects }), undefined), sent)];
}

describe("eventsOf", () => {
  it("sends all objects in parts, then only those that changed or are gone", () => {
    const objects = many(2500);
    const sent = new Map<number, WatchedObject>();
    const lengths = events(objects, sent).map((event) => event.objects.length);
    assert.deepEqual(lengths, [1000, 1000, 500]);
    assert.deepEqual(
      events(objects, sent).map((event) => event.objects.length),
      [0],
    );
    const changed = watchedObject({ object: 7, name: "n6", leases: 2 });
    const next = objects.slice(1).map((object) => (object.object === 7 ? changed : object));
    const [event, ...more] = events(next, sent);
    assert.deepEqual(more, []);
    assert.deepEqual(
      event?.objects.map(({ id }) => id),
      [7],
    );
    assert.ok(event !== undefined && "gone" in event);
    assert.deepEqual(event.gone, [1]);
  });
});

describe("eventText", () => {
  it("escapes what would reverse or hide other text of a page", () => {
    const clients = [{ program: "\u202egnp.exe\u0007", pid: 5 }];
    const [, data = ""] = /^data: (.*)\n\n$/.exec(eventText({ clients })) ?? [];
    const program = "\\u202egnp.exe\\u0007";
    assert.deepEqual(JSON.parse(data), { clients: [{ program, pid: 5 }] });
  });
});
