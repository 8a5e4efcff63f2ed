/**
 * Workers and clients of a service that are killed, leave or stop at some point. Every request has
 * one outcome, and nothing is left over.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { offersAmong, requestName } from "../../../src/service/service-names.js";
import { checkLeaks } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";
import { ask, asked, MESSAGE, SERVICE, ServiceRig } from "./service-rig.js";

describe("when a process of a service dies", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  it("answers every request of a worker that is killed under load by another worker", async () => {
    const [first, second] = await Promise.all([rig.worker({ depth: 4 }), rig.worker({ depth: 4 })]);
    const client = await rig.client();
    let answered = 0;
    const all = Array.from({ length: 300 }, async (_, id) => {
      const answer = await ask(client, { id });
      answered += 1;
      if (answered === 100) first.kill("SIGKILL");
      return answer;
    });
    const answers = await Promise.all(all);
    assert.deepEqual(
      answers.map(({ id }) => id),
      Array.from({ length: 300 }, (_, id) => id),
    );
    assert.equal(answers.at(-1)?.pid, second.pid);
    await until("it is known", () => client.workers === 1);
    await rig.onlyOffersAndLinks(1, 1);
  });

  it("starts a running request again on another worker if its worker dies", async () => {
    const first = await rig.worker();
    const client = await rig.client();
    const held = ask(client, { op: "hold", id: 5 });
    assert.deepEqual(await first.says(), { began: 5 });
    const second = await rig.worker();
    first.kill("SIGKILL");
    assert.deepEqual(await second.says(), { began: 5 });
    second.goOn("release");
    assert.equal((await held).pid, second.pid);
    assert.equal(client.retried, 1);
  });

  it('fails only running requests with PEER_GONE if the policy is "fail"', async () => {
    const first = await rig.worker({ depth: 2 });
    const client = await rig.client({ policy: "fail" });
    const underWay = [1, 2].map((id) => asked(client, { op: "hold", id }));
    assert.deepEqual(await first.says(), { began: 1 });
    await until("both are there", async () => (await rig.facts(first)).waiting === 1);
    const waiting = [3, 4].map((id) => ask(client, { id }));
    first.kill("SIGKILL");
    for (const request of underWay) {
      await assert.rejects(request, {
        code: "PEER_GONE",
        message: 'Cannot request from service "double": its worker ended before it answered',
      });
    }
    const second = await rig.worker();
    for (const request of waiting) assert.equal((await request).pid, second.pid);
    assert.equal(client.retried, 0);
  });

  it("throws PEER_GONE after retriesMax retries", async () => {
    const workers = await Promise.all([rig.worker(), rig.worker(), rig.worker(), rig.worker()]);
    const client = await rig.client({ retriesMax: 2 });
    await assert.rejects(asked(client, { op: "die" }), {
      code: "PEER_GONE",
      message: /the last of 3$/,
    });
    const left = await Promise.race(
      workers.map(async (worker) => ({ worker, exit: await worker.exited() })),
    );
    assert.equal(left.exit, "SIGKILL");
    assert.ok((await ask(client, { id: 3 })).pid > 0);
  });

  it("keeps a held reply valid after its worker died", async () => {
    const worker = await rig.worker();
    const client = await rig.client();
    const reply = await asked(client, { id: 4 });
    worker.kill("SIGKILL");
    await until("it is known", () => client.workers === 0);
    assert.deepEqual(await reply.array.read(), Float64Array.of(8, 10, 12, 14, 16, 18, 20, 22));
    reply.release();
    await rig.onlyOffers(0);
  });

  it("ends held replies when the client closes", async () => {
    const worker = await rig.worker();
    const client = await rig.client();
    const reply = await asked(client, { id: 4 });
    worker.kill("SIGKILL");
    await until("it is known", () => client.workers === 0);
    await client.close();
    assert.throws(() => reply.array.view(), { code: "CLOSED" });
    await rig.onlyOffers(0);
  });

  it("tells a worker that its client was killed, and the worker serves others", async () => {
    const worker = await rig.worker();
    const dying = await rig.clientProcess();
    dying.goOn(JSON.stringify({ op: "hold", id: 1 }));
    assert.deepEqual(await worker.says(), { began: 1 });
    dying.kill("SIGKILL");
    assert.deepEqual(await worker.says(), { aborted: 1, code: "PEER_GONE" });
    await rig.onlyOffers(1);
    const client = await rig.client();
    assert.equal((await ask(client, { id: 2 })).pid, worker.pid);
  });

  it("close() finishes running requests and leaves the rest to other workers", async () => {
    const first = await rig.worker({ depth: 2 });
    const client = await rig.client({ policy: "fail" });
    const begun = ask(client, { op: "hold", id: 1 });
    assert.deepEqual(await first.says(), { began: 1 });
    const queued = ask(client, { op: "double", id: 2 });
    await until("it is there", async () => (await rig.facts(first)).waiting === 1);
    first.goOn("close");
    const late = ask(client, { id: 3 });
    const second = await rig.worker();
    assert.deepEqual([(await queued).pid, (await late).pid], [second.pid, second.pid]);
    first.goOn("release");
    assert.equal((await begun).pid, first.pid);
    assert.deepEqual(await first.says(), { closed: true });
    await until("it is known", () => client.workers === 1);
    await rig.onlyOffersAndLinks(1, 1);
  });

  it("close() abandons requests that run longer than its time limit, and says so", async () => {
    const worker = await rig.worker();
    const client = await rig.client({ policy: "fail" });
    const begun = asked(client, { op: "stubborn", id: 1 });
    assert.deepEqual(await worker.says(), { began: 1 });
    worker.goOn("close 20");
    await assert.rejects(begun, { code: "PEER_GONE" });
    assert.deepEqual(await worker.says(), {
      aborted: 1,
      code: "CLOSED",
      cause: 'Cannot close service "double": not done within 20 ms; requests that still run: 1',
    });
    assert.deepEqual(await worker.says(), { closed: true });
    await rig.onlyOffers(0);
  });

  it("offers again after a client claimed an offer and left", async () => {
    const worker = await rig.worker();
    const hub = await rig.connect();
    const [offer] = offersAmong(
      SERVICE,
      (await hub.list()).map(({ name }) => name),
    );
    assert.ok(offer !== undefined);
    // As if the client had died after it claimed the offer, and then after it made its channel.
    (await hub.openChannel(offer.name, { from: "oldest" })).close();
    const client = await rig.client();
    assert.equal((await ask(client, { id: 1 })).pid, worker.pid);
  });

  it("makes another offer if a client claims one and stays silent", async () => {
    const worker = await rig.worker({ claimTimeoutMs: 1000 });
    const hub = await rig.connect();
    const [offer] = offersAmong(
      SERVICE,
      (await hub.list()).map(({ name }) => name),
    );
    assert.ok(offer !== undefined);
    using silent = await hub.openChannel(offer.name, { from: "oldest" });
    const client = await rig.client();
    assert.equal((await ask(client, { id: 1 })).pid, worker.pid);
    using first = await soon("the hello", silent.next());
    assert.ok(first !== undefined);
    assert.equal(await soon("the end", silent.next()), undefined);
  });

  it("serves others after a client sends a wrong channel or malformed requests", async () => {
    const worker = await rig.worker();
    const hub = await rig.connect();
    const spoil = async (options: object, meta: Uint8Array) => {
      const [offer] = offersAmong(
        SERVICE,
        (await hub.list()).map(({ name }) => name),
      );
      assert.ok(offer !== undefined);
      using reader = await hub.openChannel(offer.name, { from: "oldest" });
      (await soon("the hello", reader.next()))?.release();
      using writer = await hub.createChannel(requestName(offer.name), {
        ...MESSAGE,
        slots: 4,
        readersMax: 1,
        ...options,
      });
      (await writer.loan()).commit({ meta });
      assert.equal(await soon("the end of the link", reader.next()), undefined);
      writer.close();
      await rig.onlyOffers(1);
    };
    const request = new Uint8Array(24);
    request.set([2], 0);
    const cases: [object, Uint8Array][] = [
      [{ slots: 5, metaBytesMax: 280 }, request],
      [{ dtype: "uint8", metaBytesMax: 280 }, request],
      [{ metaBytesMax: 100 }, request],
      [{ metaBytesMax: 280 }, new Uint8Array(23)],
      [{ metaBytesMax: 280 }, new Uint8Array(24)],
      [{ metaBytesMax: 280 }, new Uint8Array(24).fill(255)],
      [{ metaBytesMax: 280 }, Uint8Array.from(request, (byte, i) => (i === 0 ? 4 : byte))],
    ];
    for (const [options, meta] of cases) await spoil(options, meta);
    const client = await rig.client();
    assert.equal((await ask(client, { id: 1 })).pid, worker.pid);
  });
});
