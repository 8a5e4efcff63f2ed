/**
 * A client of a hub that replies in bad faith. Each call ends with a right result or an error with
 * a code, and leaves nothing behind. `SEED=number` repeats a run, except for the order in which
 * sockets become readable.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { CudaIpcError } from "../../src/base/errors.js";
import { connect } from "../../src/client/connect.js";
import type { Hub } from "../../src/client/hub.js";
import { SharedArray } from "../../src/client/objects/shared-array.js";
import { resultSchemas } from "../../src/wire/messages.js";
import { HostileHub } from "../support/hostile-hub.js";
import { checkLeaks } from "../support/leak-check.js";
import { nightly, Random, seedOfRun, thorough } from "../support/random.js";
import { TestFolder } from "../support/test-folder.js";
import { soon, until } from "../support/until.js";

const CLIENTS = nightly ? 2000 : thorough ? 300 : 100;
const CALLS = 12;
const MALICE = [0, 0.05, 0.2, 0.6];
/** Time for a reply that never comes. One that comes takes a small part of it. */
const SILENCE = { timeoutMs: 60 };

const array = { dtype: "int32", shape: [4] } as const;

/** Every call of a client, with a check of its result. */
const calls: readonly ((hub: Hub) => Promise<void>)[] = [
  async (hub) => {
    const made = await hub.create("frame", { ...array, ...SILENCE });
    await made.write(Int32Array.of(1, 2, 3, 4));
    await made.publish(SILENCE);
    assert.deepEqual(await made.read(), Int32Array.of(1, 2, 3, 4));
    made.close();
  },
  async (hub) => {
    const made = await hub.createBundle("frame", { w: array }, SILENCE);
    assert.equal(made.size, 1);
  },
  async (hub) => {
    using line = await hub.createTimeline("line", SILENCE);
    line.signal(1n);
  },
  async (hub) => {
    const opened = await hub.openAny("frame", SILENCE);
    if (opened instanceof SharedArray && opened.elementCount < 10_000) {
      assert.equal((await opened.read()).length, opened.elementCount);
    }
  },
  async (hub) =>
    assert.ok(
      (await hub.open("frame", { ...SILENCE, access: "read-write" })) instanceof SharedArray,
    ),
  async (hub) => assert.ok((await hub.openBundle("frame", { ...SILENCE, wait: false })).size <= 1),
  async (hub) => {
    using line = await hub.openTimeline("line", SILENCE);
    assert.ok(line.read({ evenIfEnded: true }) >= 0n);
  },
  async (hub) => assert.ok(v.is(resultSchemas.list.entries.objects, await hub.list(SILENCE))),
  async (hub) => assert.ok(v.is(resultSchemas.inspect, await hub.inspect("frame", SILENCE))),
  async (hub) => assert.ok(v.is(resultSchemas.status, await hub.status(SILENCE))),
  async (hub) => hub.remove("frame", SILENCE),
  async (hub) => hub.stop(SILENCE),
];

describe("a client of a hostile hub", () => {
  checkLeaks();

  it("gets a right result or an error with a code from each call, and leaks nothing", async (t) => {
    const seed = seedOfRun();
    t.diagnostic(`SEED=${seed}`);
    const random = new Random(seed);
    using folder = new TestFolder();
    using hostile = new HostileHub(folder.socket, random);
    const outcomes = new Map<string, number>();
    const judged = async (what: string, call: Promise<unknown>) => {
      let outcome = "right";
      try {
        await soon(`${what} ends`, call);
      } catch (error) {
        if (!(error instanceof CudaIpcError))
          throw new Error(`SEED=${seed}: ${what}: ${error}`, { cause: error });
        outcome = error.code;
      }
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    };
    for (let client = 0; client < CLIENTS; client += 1) {
      hostile.malice = random.pick(MALICE);
      await judged("a client", talk(folder.socket, random, judged));
      await until("the hub has seen it leave", () => hostile.clientCount === 0);
    }
    t.diagnostic(JSON.stringify([...outcomes].sort()));
    for (const wanted of [
      "right",
      "TIMEOUT",
      "HUB_GONE",
      "INVALID_MESSAGE",
      "INVALID_DESCRIPTOR",
    ]) {
      assert.ok((outcomes.get(wanted) ?? 0) > CLIENTS / 100, `${wanted} came about`);
    }
  });

  it("gets an error for a list with endless pages, long before its deadline", async () => {
    using folder = new TestFolder();
    using hostile = new HostileHub(folder.socket, new Random(1));
    hostile.malice = 0;
    hostile.listsEnd = false;
    const hub = await connect({ socket: folder.socket, start: false, device: "host" });
    try {
      await assert.rejects(hub.list({ timeoutMs: 20_000 }), { code: "INVALID_MESSAGE" });
    } finally {
      await hub.close();
    }
  });
});

/** Runs one client: some calls one after another, some at once. */
async function talk(
  socket: string,
  random: Random,
  judged: (what: string, call: Promise<unknown>) => Promise<void>,
): Promise<void> {
  const back = { reconnect: random.chance(0.1), reconnectTimeoutMs: 200 };
  const hub = await connect({ socket, start: false, device: "host", ...back, ...SILENCE });
  try {
    for (let count = 0; count < CALLS; count += 1) {
      const chosen = Array.from({ length: random.pick([1, 1, 4]) }, () =>
        random.below(calls.length),
      );
      await Promise.all(
        chosen.map((place) =>
          judged(`call ${place}`, (calls[place] as (typeof calls)[number])(hub)),
        ),
      );
    }
  } finally {
    await judged("close", hub.close());
  }
}
