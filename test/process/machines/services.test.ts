/** Requests that workers of another machine answer: two hubs, two bridges, NATS, UCX over TCP. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { serve } from "../../../src/service/service.js";
import { connectService, type ServiceClient } from "../../../src/service/service-client.js";
import type { ConnectServiceOptions, ServeOptions } from "../../../src/service/service-options.js";
import type { Actor } from "../../support/actor.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { patientExplanations } from "../../support/patient-explanations.js";
import { soon, until, untilRejects } from "../../support/until.js";
import { ask, asked, startWorker } from "../service/service-rig.js";

const FOR_MACHINES = { sharing: { machines: true } } as const;

describe("a service with workers on another machine", { skip: skipWithoutEngines }, () => {
  patientExplanations();
  let nats: TestNats;
  let one: TestMachine;
  let other: TestMachine;
  let hubOfOne: Hub;
  let hubOfOther: Hub;
  const ends: (() => Promise<unknown>)[] = [];
  let services = 0;
  let name = "";

  before(async () => {
    nats = await TestNats.start();
    one = await TestMachine.start("one", nats, { args: ["--announce", "patterned"] });
    other = await TestMachine.start("other", nats);
    hubOfOne = await one.connect();
    hubOfOther = await other.connect();
  });
  after(async () => {
    await hubOfOther?.close();
    await hubOfOne?.close();
    await other?.[Symbol.asyncDispose]();
    await one?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
    for (const hub of [hubOfOne, hubOfOther])
      await until("nothing is left", async () => (await hub.list()).length === 0);
  });

  /** A worker of a service that no other test uses. */
  async function farWorker(options: Partial<ServeOptions> = {}): Promise<Actor> {
    services += 1;
    name = `double-${services}`;
    return worker(one, { ...FOR_MACHINES, ...options });
  }

  async function worker(machine: TestMachine, options: Partial<ServeOptions> = {}): Promise<Actor> {
    const actor = await startWorker(machine.hub.socket, name, options);
    ends.push(() => actor[Symbol.asyncDispose]());
    return actor;
  }

  function client(options: ConnectServiceOptions = {}): ServiceClient {
    const made = connectService(hubOfOther, name, { machine: "any", ...options });
    ends.push(() => made.close());
    return made;
  }

  it("are asked and answer, or fail with what their handler threw", async () => {
    const { pid } = await farWorker();
    const asking = client();
    for (const id of [1, 2, 3]) assert.deepEqual(await ask(asking, { id }), { pid, id });
    await assert.rejects(asked(asking, { op: "throw", id: 4 }), {
      code: "REQUEST_FAILED",
      message: /RangeError: no image 4/,
    });
    assert.equal(asking.workers, 1);
    assert.match((await other.run("ls", `${name}:*`)).out, /replica of one/);
    await one.says(`announced: service "${name}"`);
  });

  it("are asked only by clients that were told so, of services that may be", async () => {
    await farWorker();
    const here = client({ machine: "here" });
    const far = client();
    await ask(far);
    await assert.rejects(asked(here, { timeoutMs: 1000 }), { code: "TIMEOUT" });
    name = "unannounced";
    await worker(one);
    const found = /NOT_FOUND: .*no other machine has announced workers of it/;
    const unheard = client();
    await untilRejects({ code: "TIMEOUT", message: found }, (timeoutMs) =>
      asked(unheard, { timeoutMs }),
    );
    name = "patterned";
    const { pid } = await worker(one);
    assert.equal((await ask(client())).pid, pid);
  });

  it("are asked if the nearer ones have no room, and after their end", async () => {
    const far = await farWorker();
    const near = await worker(other);
    const asking = client({ policy: "retry" });
    for (const id of [1, 2, 3]) assert.equal((await ask(asking, { id })).pid, near.pid);
    const held = [4, 5].map((id) => asked(asking, { op: "hold", id }));
    assert.deepEqual(await near.says(), { began: 4 });
    assert.equal((await ask(asking, { id: 6 })).pid, far.pid);
    assert.equal(asking.workers, 2);
    near.kill("SIGKILL");
    for (const id of [4, 5]) {
      assert.deepEqual(await far.says(), { began: id });
      far.goOn("release");
    }
    for (const each of held) (await soon("a reply", each)).release();
    assert.equal((await ask(asking, { id: 7 })).pid, far.pid);
    assert.equal(asking.retried, 2);
    const nextNear = await worker(other);
    await until("the nearest is asked again", async () => (await ask(asking)).pid === nextNear.pid);
  });

  it("answer many requests at a time, each once", async () => {
    const { pid } = await farWorker({ concurrency: 8 });
    const asking = client();
    const replies = Array.from({ length: 1000 }, async (_, id) => {
      using reply = await asked(asking, { id, timeoutMs: Number.POSITIVE_INFINITY });
      return reply.json;
    });
    for (const [id, reply] of replies.entries()) assert.deepEqual(await reply, { pid, id });
    assert.equal(asking.retried, 0);
  });

  it("are shared by clients, and each client uses several of them", async () => {
    const first = await farWorker();
    const second = await worker(one, FOR_MACHINES);
    const [busy, idle] = [client(), client()];
    const held = [1, 2, 3, 4].map((id) => asked(busy, { op: "hold", id }));
    const began = [await first.says(), await second.says()] as { readonly began: number }[];
    assert.equal(new Set(began.map((it) => it.began)).size, 2);
    assert.equal(busy.workers, 2);
    const waiting = ask(idle, { id: 9 });
    for (const actor of [first, second]) {
      actor.goOn("release");
      await actor.says();
      actor.goOn("release");
    }
    for (const each of held) (await soon("a reply", each)).release();
    assert.equal((await waiting).id, 9);
  });

  it("learn that a request was cancelled, is late, or that its client is gone", async () => {
    const far = await farWorker();
    const asking = client();
    const stop = new AbortController();
    const cancelled = asked(asking, { op: "hold", id: 1, signal: stop.signal });
    assert.deepEqual(await far.says(), { began: 1 });
    stop.abort();
    await assert.rejects(cancelled, { code: "ABORTED" });
    assert.deepEqual(await aborted(far), [1, "ABORTED"]);
    const late = asked(asking, { op: "stubborn", id: 2, timeoutMs: 6000 });
    assert.deepEqual(await far.says(), { began: 2 });
    await assert.rejects(late, { code: "TIMEOUT", message: /on machine "one"\) has not answered/ });
    // By the cancellation or by its own timer, whichever is first.
    assert.equal((await aborted(far))[0], 2);
    far.goOn("release");
    assert.equal((await ask(asking, { id: 3 })).id, 3);
    const abandoned = asked(asking, { op: "hold", id: 4 });
    assert.deepEqual(await far.says(), { began: 4 });
    await asking.close();
    await assert.rejects(abandoned, { code: "CLOSED" });
    assert.deepEqual(await aborted(far), [4, "PEER_GONE"]);
  });

  it("get large requests and send large replies, with shapes and meta", async () => {
    name = "large";
    const shape = [3, 1_000_000];
    const message = { dtype: "uint8", shape } as const;
    const options = { request: message, reply: message, ...FOR_MACHINES };
    const serving = await serve(hubOfOne, name, options, async (request, reply) => {
      (await reply.loan()).bytes.set(request.bytes.map((it) => it ^ 255));
      return { meta: request.meta, shape: request.array.shape };
    });
    ends.push(() => serving.close());
    const asking = client();
    for (const [index, rows] of [3, 1, 0, 2].entries()) {
      const meta = Uint8Array.of(index, 0, 255);
      const fill = (slot: { readonly bytes: Uint8Array }) => void slot.bytes.fill(index + 1);
      const given = { shape: [rows, 1_000_000], meta, timeoutMs: 25_000 };
      using reply = await asking.request(fill, given);
      assert.deepEqual(reply.array.shape, [rows, 1_000_000]);
      assert.ok(reply.bytes.every((it) => it === (255 ^ (index + 1))));
      assert.deepEqual(reply.meta, meta);
    }
  });

  it("stop and are gone: the policy decides about what they had begun", async () => {
    const far = await farWorker();
    const failing = client({ policy: "fail" });
    const held = asked(failing, { op: "hold", id: 1 });
    assert.deepEqual(await far.says(), { began: 1 });
    far.kill("SIGKILL");
    await assert.rejects(soon("the request ends", held), { code: "PEER_GONE" });
    const next = await worker(one, FOR_MACHINES);
    const begun = asked(failing, { op: "hold", id: 2 });
    assert.deepEqual(await next.says(), { began: 2 });
    const waiting = ask(failing, { id: 3 });
    const last = await worker(one, FOR_MACHINES);
    next.goOn("close");
    next.goOn("release");
    (await soon("what was begun is finished", begun)).release();
    assert.equal((await waiting).pid, last.pid);
  });

  it("do not hold a link up while replies are held", async () => {
    await farWorker({ depth: 2 });
    const asking = client();
    const held = [await asked(asking, { id: 1 }), await asked(asking, { id: 2 })];
    const more = [3, 4, 5].map((id) => asked(asking, { id }));
    await soon("what there is room for", more[0] as Promise<unknown>);
    for (const reply of held) reply.release();
    for (const each of more) (await soon("a reply", each)).release();
  });
});

async function aborted(worker: Actor): Promise<readonly [number, string]> {
  const said = (await worker.says()) as { readonly aborted: number; readonly code: string };
  return [said.aborted, said.code];
}
