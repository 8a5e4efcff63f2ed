import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { textWidth } from "../../../../src/cli/terminal/text-width.js";
import { screenLines } from "../../../../src/cli/top/top-screen.js";
import { TopState } from "../../../../src/cli/top/top-state.js";
import { type Look, lookAt } from "../../../../src/cli/top/view.js";
import { ratesBetween } from "../../../../src/watch/rates.js";
import type { Snapshot, WatchedObject } from "../../../../src/watch/snapshot.js";
import { hostArray } from "../../../support/messages.js";
import { snapshotOf, watchedChannel, watchedClient, watchedObject } from "../../watch/samples.js";

const GPU = "GPU-01234567-89ab-cdef-0123-456789abcdef";
const GiB = 1024 ** 3;
const numbers = watchedObject({
  object: 2,
  name: "numbers",
  leases: 2,
  holders: [
    { pid: 41, program: "send.mjs", access: "owner", role: "writer", session: 3, sinceMs: 0 },
    {
      pid: 42,
      program: "slow.py",
      access: "read",
      role: "reader",
      place: 0,
      session: 4,
      sinceMs: 0,
    },
  ],
});

function full(changes: Partial<Snapshot> = {}): Snapshot {
  const device = { model: undefined, processes: [], usedBytes: 4 * GiB, totalBytes: 8 * GiB };
  return snapshotOf({
    objects: [watchedObject({ name: "weights", device: GPU, heldBytes: 2 * GiB }), numbers],
    clients: [watchedClient({ program: "日本\u001b[2J<b>" })],
    channels: [watchedChannel(), { object: 9, name: "broken", unreadable: "it is corrupt" }],
    services: [
      {
        name: "double",
        workers: 1,
        links: 2,
        offers: 1,
        underWay: 3,
        answered: 50,
        latency: { count: 4, medianMs: 1.5, maxMs: 20 },
        replyChannels: [2],
        offerChannels: [],
      },
    ],
    devices: [
      { ...device, device: "host", heldBytes: 4096, othersBytes: 4 * GiB },
      { ...device, device: GPU, model: "NVIDIA Test", heldBytes: 2 * GiB, othersBytes: 2 * GiB },
    ],
    ...changes,
  });
}

function shown(keys: string, look: Look | undefined, columns = 80, rows = 24): string[] {
  const state = new TopState();
  const draw = () => screenLines(look, state, { columns, rows }, 1_700_000_100_000);
  draw();
  for (const key of keys.split(" ").filter((it) => it !== "")) {
    state.press(key);
    draw();
  }
  return draw().map((line) =>
    line
      .map(({ text }) => text)
      .join("")
      .trimEnd(),
  );
}

const at = (snapshot: Snapshot) =>
  lookAt(snapshot, ratesBetween(full({ monotonicMs: 0, channels: [] }), snapshot));

describe("the screen of top", () => {
  it("says which device holds what, with a bar to scale", () => {
    const words = "2 GiB hub, 2 GiB others, 4 GiB free of 8 GiB";
    const line = (columns: number) => shown("", at(full()), columns)[2];
    assert.equal(line(80), `GPU-01234567 [#####=====..........] ${words}`);
    assert.equal(line(60), `GPU-01234567 ${words}`);
    assert.equal(line(20), "GPU-01234567 2 GiB/8 GiB");
    const wide = shown("", at(full()), 110)[2] ?? "";
    assert.match(wide, /\[(#+)(=+)(\.+)\]/);
    const [, ours = "", others = "", free = ""] = /\[(#+)(=+)(\.+)\]/.exec(wide) ?? [];
    assert.deepEqual([ours.length, others.length, free.length], [8, 7, 15], wide);
  });

  it("has the lag of each reader with its process, the slowest first", () => {
    const text = shown("2", at(full()), 120).join("\n");
    assert.match(text, /^numbers +100 +2\.0 KiB\/s +2 slow\.py 42 +3 +0 +100 /m);
    assert.match(text, /^broken +\? /m);
    const details = shown("2 return", at(full()), 120).join("\n");
    assert.match(
      details,
      /^reader 0 +slow\.py 42: 2 messages behind, 98\/s, 98 received, 0 missed/m,
    );
  });

  it("says who fills a device: objects with their holders, and other processes", () => {
    const [host, gpu] = full().devices;
    const processes = [
      { pid: 4242, bytes: GiB },
      { pid: 77, bytes: undefined },
    ];
    const devices = [host, { ...gpu, processes }] as Snapshot["devices"];
    const clients = [watchedClient({ program: "train.py" })];
    const text = shown("5 return", at(full({ devices, clients })), 120).join("\n");
    assert.match(
      text,
      /^by others +2 GiB\n +process 4242 \(train\.py\): 1 GiB\n +process 77: \?$/m,
    );
    assert.match(text, /^by the hub +2 GiB\n +weights, 2 GiB, held by producer 4242$/m);
  });

  it("says what the removal of an object would free", () => {
    const removal = (changes: Partial<WatchedObject>) => {
      const objects = [watchedObject(changes)];
      const text = shown("return", at(full({ objects })), 120).join("\n");
      return /^removal +(.*)$/m.exec(text)?.[1];
    };
    assert.equal(removal({}), "frees 4 KiB once its lease ends");
    const pool = { descriptor: { ...hostArray, mechanism: "pool" } } as const;
    assert.match(removal(pool) ?? "", /^frees nothing: its memory is part of a pool/);
  });

  it("has a service's requests under way, rate and latency", () => {
    const text = shown("4", at(full())).join("\n");
    assert.match(text, /^double +3 +99 +1\.5 ms +20 ms +1 +2 +1/m);
    const details = shown("4 return", at(full()), 120).join("\n");
    assert.match(details, /^workers +1: send\.mjs 41\nclients +1: slow\.py 42$/m);
  });

  it("fits into every size, in every view", () => {
    for (const keys of [
      "",
      "2",
      "3",
      "4",
      "5",
      "?",
      "return",
      "2 return",
      "3 return",
      "5 return",
    ]) {
      for (const columns of [1, 5, 20, 40, 80, 200]) {
        for (const rows of [1, 3, 6, 10, 24, 60]) {
          const state = new TopState();
          for (const key of keys.split(" ")) state.press(key);
          const size = { columns, rows };
          const lines = screenLines(at(full()), state, size, 1_700_000_100_000);
          assert.ok(lines.length <= rows, `${keys} ${columns}x${rows}: ${lines.length} lines`);
        }
        const table = shown(keys, at(full()), columns).slice(4);
        if (!keys.includes("return") && keys !== "?")
          for (const line of table) {
            const isKeys = line === table.at(-1);
            assert.ok(isKeys || textWidth(line) <= columns, `${keys} ${columns}: ${line}`);
          }
      }
    }
  });

  it("says what is wrong with the hub, and that it is looked for", () => {
    const hub = { ...full().hub, answers: false, reason: "none listens there" };
    const [, trouble] = shown("", lookAt(full({ hub }), undefined));
    assert.equal(trouble, "No hub answers: none listens there. Looking for the next one.");
    assert.deepEqual(shown("", undefined), ["Looking for the hub ..."]);
  });

  it("says why GPUs are unknown", () => {
    const look = lookAt(full({ gpusUnknown: "no library" }), undefined);
    assert.match(shown("", look).join("\n"), /^GPUs: totals unknown \(no library\)$/m);
  });

  it("draws 10,000 objects in a fraction of a second", () => {
    const objects = Array.from({ length: 10_000 }, (_, object) =>
      watchedObject({ object, name: `object-${object}`, heldBytes: object }),
    );
    const look = lookAt(full({ objects }), undefined);
    const lines = shown("end", look);
    assert.match(lines.join("\n"), /^object-0 /m);
  });
});
