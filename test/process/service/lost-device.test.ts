/**
 * Workers that lose their device and live on. No request fails because of them, and none runs twice
 * against its policy.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { beforeEach, describe, it, type TestContext } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import type { Stream } from "../../../src/gpu/order/stream.js";
import { serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";
import { ask, asked, MESSAGE, SERVICE, ServiceRig } from "./service-rig.js";

describe("a worker whose device is lost", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  it("has its requests answered by another worker, and gets no more", async () => {
    const lost = await rig.worker();
    const client = await rig.client();
    assert.equal((await ask(client, { id: 1 })).pid, lost.pid);
    lost.goOn("lose");
    const other = await rig.worker();
    const answers = await Promise.all(Array.from({ length: 30 }, (_, id) => ask(client, { id })));
    assert.deepEqual(new Set(answers.map(({ pid }) => pid)), new Set([other.pid]));
    assert.ok(client.retried > 0);
    const { retried } = client;
    assert.equal((await ask(client, { id: 2 })).pid, other.pid);
    assert.equal(client.retried, retried);
  });

  it('fails running requests if the policy is "fail", and the rest move on', async () => {
    const lost = await rig.worker({ depth: 2 });
    const client = await rig.client({ policy: "fail" });
    const begun = asked(client, { op: "hold", id: 1 });
    const waiting = ask(client, { id: 2 });
    assert.deepEqual(await lost.says(), { began: 1 });
    await until("both are there", async () => (await rig.facts(lost)).waiting === 1);
    const other = await rig.worker();
    lost.goOn("lose");
    lost.goOn("release");
    await assert.rejects(begun, { code: "PEER_GONE" });
    assert.equal((await waiting).pid, other.pid);
  });
});

describe("a worker whose stream refuses because its device is lost", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  for (const others of ["waiting", "later"] as const) {
    it(`fails the running request, and ${others} ones are answered elsewhere`, async (t) => {
      const hub = await rig.connect();
      const stream = hub.device().createStream();
      const lost = new CudaIpcError("DEVICE_LOST", "Cannot signal a timeline: the context is lost");
      const options = { request: MESSAGE, reply: MESSAGE, depth: 2, stream } as const;
      await using service = await serve(hub, SERVICE, options, async (_, reply) => {
        await reply.loan();
        if (others === "waiting") await until("one waits", () => service.waiting === 1);
        t.mock.method(stream, "signal", () => {
          throw lost;
        });
        throw lost;
      });
      await using client = connectService(await rig.connect(), SERVICE, { policy: "fail" });
      const told = assert.rejects(soon("the first is told", client.request(undefined)), {
        code: "PEER_GONE",
      });
      const waiting = others === "waiting" ? ask(client, { id: 1 }) : undefined;
      await told;
      const other = await rig.worker();
      assert.equal((await (waiting ?? ask(client, { id: 1 }))).pid, other.pid);
      t.mock.restoreAll();
    });
  }
});

describe("a link that ends while a slot is loaned to the stream of a lost device", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  const lose = (t: TestContext, stream: Stream) =>
    t.mock.method(stream, "signal", () => {
      throw new CudaIpcError("DEVICE_LOST", "Cannot signal a timeline: the context is lost");
    });

  it("does not end the worker's process", async (t) => {
    const hub = await rig.connect();
    const stream = hub.device().createStream();
    const options = { request: MESSAGE, reply: MESSAGE, stream } as const;
    let held = false;
    await using service = await serve(hub, SERVICE, options, async ({ signal }, reply) => {
      await reply.loan();
      lose(t, stream);
      held = true;
      await once(signal, "abort");
      return undefined;
    });
    const client = connectService(await rig.connect(), SERVICE);
    const waiting = client.request(undefined);
    await until("the reply holds a slot", () => held);
    await Promise.all([client.close(), assert.rejects(waiting, { code: "CLOSED" })]);
    await until("the link has ended", () => service.clients + service.running === 0);
    t.mock.restoreAll();
  });

  it("does not end the client's process", async (t) => {
    const worker = await rig.worker();
    const hub = await rig.connect();
    const stream = hub.device().createStream();
    await using client = connectService(hub, SERVICE, { stream });
    let fills = 0;
    const waiting = client.request(async (_, signal) => {
      fills += 1;
      if (fills > 1) throw new RangeError("once is enough");
      lose(t, stream);
      const aborted = once(signal, "abort");
      worker.kill("SIGKILL");
      await aborted;
      t.mock.restoreAll();
    });
    const failed = assert.rejects(waiting, RangeError);
    await worker.exited();
    await rig.worker();
    await soon("the request is filled again", failed);
  });
});

describe("a client whose device is lost while it fills a request", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  it("gets the error of its callback although the slot cannot be given back", async (t) => {
    await rig.worker();
    const hub = await rig.connect();
    const stream = hub.device().createStream();
    await using client = connectService(hub, SERVICE, { stream });
    const lost = new CudaIpcError("DEVICE_LOST", "Cannot signal a timeline: the context is lost");
    const failing = client.request(async () => {
      t.mock.method(stream, "signal", () => {
        throw lost;
      });
      throw lost;
    });
    await assert.rejects(soon("the request fails", failing), lost);
    assert.equal(client.workers, 0);
    t.mock.restoreAll();
  });
});
