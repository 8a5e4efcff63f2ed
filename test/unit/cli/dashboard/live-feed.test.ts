import assert from "node:assert/strict";
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { describe, it } from "node:test";
import { eventsOf, eventText, LiveFeed } from "../../../../src/cli/dashboard/live-feed.js";
import { lookAt } from "../../../../src/cli/top/view.js";
import type { HubWatch } from "../../../../src/watch/hub-watch.js";
import type { Snapshot, WatchedObject } from "../../../../src/watch/snapshot.js";
import { WebServer } from "../../../../src/web/web-server.js";
import { until } from "../../../support/until.js";
import { snapshotOf, watchedChannel, watchedObject } from "../../watch/samples.js";

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
    const parts = (all: ReturnType<typeof events>) =>
      all.map(({ objects, more }) => [objects.length, more]);
    assert.deepEqual(parts(events(objects, sent)), [
      [200, true],
      [1000, true],
      [1000, true],
      [300, false],
    ]);
    assert.deepEqual(parts(events(objects, sent)), [[0, false]]);
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

  it("sends objects without a name by their last one, and says who loses or takes a name", () => {
    const sent = new Map<number, WatchedObject>();
    const names = (objects: readonly WatchedObject[], nameless: readonly WatchedObject[]) => {
      const [event] = eventsOf(lookAt(snapshotOf({ objects, nameless }), undefined), sent);
      const rows = event?.objects.map(({ id, name, nameless }) => [id, name, nameless]);
      return [rows, event !== undefined && "gone" in event && event.gone];
    };
    const [old, next] = [1, 2].map((object) => watchedObject({ object, name: "frame" })) as [
      WatchedObject,
      WatchedObject,
    ];
    const [lost, pending] = [old, next].map((object) => ({ ...object, nameless: true as const }));
    assert.deepEqual(names([old], [pending as WatchedObject]), [
      [
        [2, "(frame)", true],
        [1, "frame", undefined],
      ],
      [],
    ]);
    assert.deepEqual(names([next], [lost as WatchedObject]), [
      [
        [2, "frame", undefined],
        [1, "(frame)", true],
      ],
      [],
    ]);
    // For a moment the list of named objects is older than the list of the others.
    assert.deepEqual(names([old, next], [lost as WatchedObject]), [[], []]);
    assert.deepEqual(names([next], []), [[], [1]]);
  });

  it("begins with the largest and then the newest objects, as the list of a page does", () => {
    const sizes = [1, 3, 2, 3];
    const objects = sizes.map((heldBytes, i) => watchedObject({ object: i + 1, heldBytes }));
    const [event] = events(objects, new Map());
    assert.deepEqual(
      event?.objects.map(({ id }) => id),
      [4, 2, 3, 1],
    );
  });
});

describe("eventText", () => {
  it("escapes what would reverse or hide other text of a page", () => {
    const clients = [{ program: "\u202egnp.exe\u0007", pid: 5 }];
    const [, data = ""] = /^data: (.*)\n\n$/.exec(eventText({ clients })) ?? [];
    const program = "\\u202egnp.exe\\u0007";
    assert.deepEqual(JSON.parse(data), { clients: [{ program, pid: 5 }] });
  });

  it("escapes each character that JSON keeps, or escapes in its own way", () => {
    for (const character of [
      "\n",
      "\t",
      "\b",
      "\f",
      "\r",
      "\u0001",
      "\u007f",
      "\u009b",
      "\u2028",
    ]) {
      const text = eventText({ name: `a${character}` });
      const { name } = JSON.parse(text.slice("data: ".length));
      assert.equal(name, `a\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
    }
    assert.equal(eventText({ name: 'a"\\é' }), 'data: {"name":"a\\"\\\\é"}\n\n');
  });
});

/** A feed that finds these, one after the other. */
function feedOf(snapshots: readonly Snapshot[]) {
  let looks = 0;
  const snapshot = async () => {
    looks += 1;
    return snapshots[looks - 1];
  };
  const watch = { snapshot, slotUse: () => undefined } as unknown as HubWatch;
  return { feed: new LiveFeed(watch, new AbortController().signal), looks: () => looks };
}

/** A dashboard whose pages hear of a look every 10 ms. */
async function servedFeed() {
  let looks = 0;
  const snapshot = async () => {
    looks += 1;
    return snapshotOf({ monotonicMs: performance.now() });
  };
  const watch = { snapshot } as unknown as HubWatch;
  const feed = new LiveFeed(watch, new AbortController().signal, 10);
  const pages = { open: 0 };
  const server = await WebServer.listen({
    address: { host: "127.0.0.1", port: 0 },
    handler: async () => ({
      type: "text/event-stream",
      run: async (write, signal) => {
        pages.open += 1;
        await feed.run(write, signal).finally(() => {
          pages.open -= 1;
        });
      },
    }),
  });
  const openPage = async () => {
    const asked = get({ ...server.address, agent: false });
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    await once(answer, "data");
    answer.resume().on("error", () => {});
    return answer;
  };
  return { feed, server, pages, openPage, looks: () => looks };
}

describe("LiveFeed", () => {
  it("looks only while a page is open", async () => {
    const [watched, other] = [await servedFeed(), await servedFeed()];
    await using _ = watched.server;
    await using __ = other.server;
    await other.openPage();
    /** Long enough for many looks: the other dashboard takes them meanwhile. */
    const longAfter = (looks: number) => {
      const start = other.looks();
      return until("the other page hears of looks", () => other.looks() >= start + looks);
    };
    await watched.feed.begin();
    await longAfter(20);
    assert.equal(watched.looks(), 1, "before the first page is opened");
    const [first, second] = [await watched.openPage(), await watched.openPage()];
    first.destroy();
    const before = watched.looks();
    await until("the second page goes on", () => watched.looks() > before + 5);
    second.destroy();
    await until("both pages are closed", () => watched.pages.open === 0);
    const last = watched.looks();
    await longAfter(20);
    assert.equal(watched.looks(), last, "after the last page was closed");
    await watched.openPage();
    await until("the next page hears of looks", () => watched.looks() > last + 5);
  });

  it("has begun once the first look is there, or takes too long", async () => {
    let look = () => {};
    const first = new Promise<Snapshot>((resolve) => {
      look = () => resolve(snapshotOf({ monotonicMs: performance.now() }));
    });
    const watching = (snapshot: Promise<Snapshot>) =>
      new LiveFeed(
        { snapshot: () => snapshot } as unknown as HubWatch,
        new AbortController().signal,
      );
    let hasBegun = false;
    const begun = watching(first)
      .begin()
      .then(() => {
        hasBegun = true;
      });
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(hasBegun, false);
    look();
    await begun;
    await watching(new Promise(() => {})).begin();
    await watching(Promise.reject(new Error("the hub is of another user"))).begin();
  });

  it("looks once for pages that ask together", async () => {
    const now = performance.now();
    const { feed, looks } = feedOf([snapshotOf({ monotonicMs: now }), snapshotOf()]);
    const page = async () => {
      const closed = new AbortController();
      await feed.run(async () => closed.abort(), closed.signal);
    };
    await Promise.all([page(), page()]);
    assert.equal(looks(), 1);
  });

  it("shows a page that is opened soon what the first look found, and then what is new", async () => {
    const now = performance.now();
    const { feed, looks } = feedOf([
      snapshotOf({ monotonicMs: now - 2000, objects: many(1) }),
      snapshotOf({ monotonicMs: now, objects: many(2) }),
    ]);
    await feed.begin();
    const closed = new AbortController();
    const seen: number[][] = [];
    await feed.run(async (text) => {
      const { objects } = JSON.parse(text.slice("data: ".length));
      seen.push([looks(), objects.length]);
      if (seen.length === 2) closed.abort();
    }, closed.signal);
    // The second time nothing that the page has is the same object.
    assert.deepEqual(seen, [
      [1, 1],
      [2, 2],
    ]);
  });

  for (const [pauseMs, isKnown] of [
    [2000, true],
    [60_000, false],
  ] as const) {
    it(`${isKnown ? "has a rate" : "has no rate"} ${pauseMs} ms after the look before`, async () => {
      const now = performance.now();
      const at = (monotonicMs: number, committed: number) =>
        snapshotOf({ monotonicMs, channels: [watchedChannel({ committed })] });
      const { feed } = feedOf([at(now - pauseMs, 100), at(now, 300)]);
      const query = new URLSearchParams({ kind: "channel", id: "2" });
      await feed.detail(query);
      const { charts } = JSON.parse(String((await feed.detail(query)).body));
      const messages = charts.find(({ title }: { title: string }) => title === "Messages");
      assert.deepEqual(messages.lines[0].values, [null, isKnown ? 100 : null]);
    });
  }
});
