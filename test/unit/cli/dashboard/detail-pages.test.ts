import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type DetailSources, detailPage } from "../../../../src/cli/dashboard/detail-pages.js";
import { LookHistory } from "../../../../src/cli/dashboard/look-history.js";
import { recordLook } from "../../../../src/cli/dashboard/recorded-looks.js";
import { type Look, lookAt } from "../../../../src/cli/top/view.js";
import { ratesBetween } from "../../../../src/watch/rates.js";
import type { Snapshot, WatchedObject } from "../../../../src/watch/snapshot.js";
import { snapshotOf, watchedChannel, watchedClient, watchedObject } from "../../watch/samples.js";

/** A channel at the moment, whose reader has this session. */
function moment(monotonicMs: number, committed: number, session: number): Snapshot {
  const holder = { pid: 7, program: "viewer", access: "read", sinceMs: 1, session } as const;
  const readers = watchedChannel().readers.map((one) => ({ ...one, behind: committed / 10 }));
  return snapshotOf({
    monotonicMs,
    channels: [watchedChannel({ committed, readers })],
    objects: [watchedObject({ object: 2, holders: [{ ...holder, role: "reader", place: 0 }] })],
    clients: [watchedClient({ session, program: "viewer", command: "python viewer.py" })],
  });
}

function sources(snapshots: readonly Snapshot[]): DetailSources {
  const history = new LookHistory();
  let look: Look = lookAt(snapshotOf(), undefined);
  for (const [i, snapshot] of snapshots.entries()) {
    const before = snapshots[i - 1];
    const rates = before === undefined ? undefined : ratesBetween(before, snapshot);
    look = lookAt(snapshot, rates);
    recordLook(history, look);
  }
  return { look, history, slotUse: () => undefined };
}

function page(kind: string, id: string, from: DetailSources) {
  const { status, body } = detailPage(new URLSearchParams({ kind, id }), from);
  return status === 200 ? JSON.parse(String(body)) : status;
}

function line(charts: { title: string; lines: { values: unknown }[] }[], title: string) {
  return charts.find((chart) => chart.title.startsWith(title))?.lines[0]?.values;
}

describe("detailPage", () => {
  it("has the rates of a channel and the lag of its readers over time", () => {
    const from = sources([moment(1000, 100, 5), moment(2000, 150, 5), moment(3000, 250, 5)]);
    const { title, charts, parties, agesMs } = page("channel", "2", from);
    assert.equal(title, "numbers");
    assert.deepEqual(agesMs, [2000, 1000, 0]);
    assert.deepEqual(line(charts, "Messages"), [null, 50, 100]);
    assert.deepEqual(line(charts, "Lag"), [10, 15, 25]);
    const [{ who, command, behind, session }] = parties;
    assert.deepEqual(
      { who, command, behind, session },
      { who: "viewer 7", command: "python viewer.py", behind: 25, session: 5 },
    );
  });

  it("has lost messages, a service's answers and latency, and a device's memory over time", () => {
    const at = (monotonicMs: number, count: number) => {
      const readers = watchedChannel().readers.map((one) => ({ ...one, missed: 3 * count }));
      const channel = watchedChannel({ dropped: count, committed: 10 * count, readers });
      const latency = { count: 1, medianMs: count, maxMs: 2 * count };
      const service = { name: "double", workers: 1, links: 1, offers: 0, answered: 0, latency };
      const channels = { replyChannels: [channel.object], offerChannels: [] };
      const size = { totalBytes: 100, usedBytes: 50, heldBytes: count, othersBytes: 2 * count };
      return snapshotOf({
        monotonicMs,
        channels: [channel],
        services: [{ ...service, ...channels, underWay: count }],
        devices: [{ device: "host", model: undefined, processes: [], ...size }],
      });
    };
    const from = sources([at(1000, 1), at(2000, 3)]);
    const lines = (kind: string, id: string): (readonly [string, unknown])[] =>
      page(kind, id, from).charts.flatMap(
        ({ title, lines }: { title: string; lines: { label: string; values: unknown }[] }) =>
          lines.map(({ label, values }) => [`${title}: ${label}`, values] as const),
      );
    const lost = lines("channel", "2").filter(([title]) => title.startsWith("Lost"));
    assert.deepEqual(
      lost.map(([, values]) => values),
      [
        [null, 2],
        [null, 6],
      ],
    );
    assert.deepEqual(lines("service", "double"), [
      ["Requests under way: requests", [1, 3]],
      ["Answers: answers", [null, 20]],
      ["Latency: median", [1, 3]],
      ["Latency: slowest", [2, 6]],
    ]);
    assert.deepEqual(lines("device", "host"), [
      ["Held by objects: objects", [1, 3]],
      ["Anything else: anything else", [2, 6]],
    ]);
  });

  it("does not give a reader the line of another one that had its seat", () => {
    const from = sources([moment(1000, 100, 5), moment(2000, 100, 6)]);
    assert.deepEqual(line(page("channel", "2", from).charts, "Lag"), [null, 10]);
  });

  it("leaves a gap while the hub does not answer, and says so", () => {
    const { hub, ...rest } = moment(2000, 100, 5);
    const silent = { ...rest, hub: { ...hub, answers: false, reason: "it was stopped" } };
    const { charts, hubAnswers } = page("channel", "2", sources([moment(1000, 100, 5), silent]));
    assert.equal(hubAnswers, false);
    assert.deepEqual(line(charts, "Lag"), [10, null]);
  });

  it("limits the facts of a client that holds many objects", () => {
    const objects = Array.from({ length: 100 }, (_, i) => watchedObject({ object: i + 1 }));
    const client = watchedClient({ session: 3, objects: objects.map(({ object }) => object) });
    const { facts, client: meant } = page(
      "client",
      "3",
      sources([snapshotOf({ objects, clients: [client] })]),
    );
    assert.deepEqual(facts.at(-1), ["", "and 47 more"]);
    assert.equal(meant.session, 3);
  });

  it("names the largest objects of a device with their holders, then counts the rest", () => {
    const objects = Array.from({ length: 30 }, (_, i) =>
      watchedObject({ object: i + 1, name: `o${i}`, heldBytes: 2 ** 30 - i }),
    );
    const size = {
      totalBytes: 2 ** 36,
      usedBytes: 2 ** 35,
      heldBytes: 2 ** 34,
      othersBytes: 2 ** 34,
    };
    const devices = [{ device: "host", model: undefined, processes: [], ...size }];
    const { facts } = page("device", "host", sources([snapshotOf({ objects, devices })]));
    assert.ok(facts.some(([, text]: string[]) => text === "o0, 1 GiB, held by producer 4242"));
    assert.equal(facts.length, 21);
    assert.match(facts.at(-1)[1], /^and \d\d more$/);
  });

  it("names the workers and clients of a service once each", () => {
    const holder = { pid: 7, access: "owner", sinceMs: 1 } as const;
    const holders: WatchedObject["holders"] = [
      { ...holder, program: "worker.py", role: "writer", session: 3 },
      { ...holder, program: "web.mjs", access: "read", role: "reader", place: 0, session: 4 },
    ];
    const objects = [5, 6, 8].map((object) =>
      watchedObject({ object, holders: object === 8 ? holders.slice(0, 1) : holders }),
    );
    const service = { name: "double", workers: 1, links: 2, offers: 1, underWay: 0, answered: 0 };
    const links = { latency: undefined, replyChannels: [5, 6], offerChannels: [8] };
    const services = [{ ...service, ...links }];
    const { parties, facts } = page(
      "service",
      "double",
      sources([snapshotOf({ objects, services })]),
    );
    assert.deepEqual(
      parties.map(({ role, who }: { role: string; who: string }) => [role, who]),
      [
        ["worker", "worker.py 7"],
        ["client", "web.mjs 7"],
      ],
    );
    assert.ok(
      facts.some(([title, text]: string[]) => title === "clients" && text === "1: web.mjs 7"),
    );
  });

  it("answers 404 for what is not there", () => {
    const from = sources([moment(1000, 100, 5)]);
    for (const [kind, id] of [
      ["channel", "3"],
      ["channel", ""],
      ["service", "x"],
      ["device", "x"],
      ["client", "-1"],
      ["constructor", "2"],
    ] as const)
      assert.equal(page(kind, id, from), 404, `${kind} ${id}`);
  });
});
