/** Replies that the program drops without `release()`. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { serve } from "../../../src/service/service.js";
import { connectService, type ServiceClient } from "../../../src/service/service-client.js";
import type { ServiceMessage } from "../../../src/service/service-message.js";
import { collect } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";

const LIMIT = { timeoutMs: 60_000 };
const DATA = Uint8Array.of(1, 2, 3, 4);
/** A worker that handles one request at a time has as many slots for its replies. */
const SLOTS = 4;
const FOUR = { dtype: "uint8", shape: [4] } as const;

async function withClient(run: (client: ServiceClient) => Promise<void>): Promise<void> {
  await using testHub = await TestHub.start();
  await using hub = await testHub.connect();
  const options = { request: FOUR, reply: FOUR };
  await using _service = await serve(hub, "dropped", options, async (request, reply) => {
    if (request.byteLength > 0) (await reply.loan()).bytes.set(request.bytes);
    return { meta: request.json ?? null };
  });
  await using client = connectService(hub, "dropped");
  await run(client);
}

function asked(client: ServiceClient, meta = 0, limit = LIMIT): Promise<ServiceMessage> {
  return client.request((slot) => slot.bytes.set(DATA), { meta, ...limit });
}

async function dropped(client: ServiceClient, use: (reply: ServiceMessage) => unknown) {
  use(await asked(client));
}

/** Fills all slots for replies. Returns what `use` makes of each reply. */
async function filled<T>(client: ServiceClient, use: (reply: ServiceMessage) => T): Promise<T[]> {
  const kept: T[] = [];
  while (kept.length < SLOTS) kept.push(use(await asked(client)));
  return kept;
}

describe("a reply that the program drops", () => {
  it("holds up no later request", async () => {
    await withClient(async (client) => {
      for (const use of [
        () => undefined,
        (reply: ServiceMessage) => reply.json,
        (reply: ServiceMessage) => reply.bytes.slice(),
        (reply: ServiceMessage) => reply.array.view(),
      ])
        for (let index = 0; index < 6; index += 1) await dropped(client, use);
    });
  });

  it("keeps its slot while a view of it is used", async () => {
    await withClient(async (client) => {
      for (const use of [
        (reply: ServiceMessage) => reply.bytes,
        (reply: ServiceMessage) => reply.array.view() as Uint8Array,
      ]) {
        const views = await filled(client, use);
        for (let round = 0; round < 5; round += 1) {
          collect();
          await setImmediate();
        }
        await assert.rejects(asked(client, 0, { timeoutMs: 1 }), { code: "TIMEOUT" });
        assert.ok(views.every((view) => Buffer.from(view).equals(DATA)));
        views.length = 0;
        (await asked(client)).release();
      }
    });
  });

  it("may outlive its client", async () => {
    const kept: ServiceMessage[] = [];
    await withClient(async (client) => void kept.push(await asked(client)));
    assert.throws(() => kept[0]?.array, { code: "CLOSED" });
    kept.length = 0;
    for (let round = 0; round < 3; round += 1) {
      collect();
      await setImmediate();
    }
  });
});

describe("a reply without data", () => {
  it("holds no slot, and stays readable until it is released", async () => {
    await withClient(async (client) => {
      const held: ServiceMessage[] = [];
      for (let meta = 0; meta < 20; meta += 1)
        held.push(await client.request(undefined, { meta, ...LIMIT }));
      for (const [index, reply] of held.entries()) {
        assert.equal(reply.json, index);
        assert.deepEqual(reply.array.shape, [0]);
        reply.release();
        reply.release();
        assert.throws(() => reply.array, { code: "CLOSED" });
      }
      (await asked(client)).release();
    });
  });
});

describe("a request without room", () => {
  it("is told how many replies this process holds", async () => {
    await withClient(async (client) => {
      const held = await filled(client, (reply) => reply);
      const own = `this process itself \\(process ${process.pid}\\) holds ${held.length} replies`;
      await assert.rejects(asked(client, 0, { timeoutMs: 1 }), {
        code: "TIMEOUT",
        message: new RegExp(`${own} that are not released`),
      });
      for (const reply of held) reply.release();
      (await asked(client)).release();
    });
  });
});
