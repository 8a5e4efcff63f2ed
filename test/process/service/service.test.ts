/**
 * Services between processes: which worker answers, how long a request waits, and what each side
 * learns.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { type CudaIpcError, hasCode } from "../../../src/base/errors.js";
import { serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { patientExplanations } from "../../support/patient-explanations.js";
import { until, untilRejects } from "../../support/until.js";
import { ask, asked, MESSAGE, SERVICE, ServiceRig } from "./service-rig.js";

describe("a service", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  patientExplanations();
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  it("answers many clients by several workers, each request once and correctly", async () => {
    const workers = await Promise.all([rig.worker({ depth: 4 }), rig.worker({ depth: 4 })]);
    const clients = await Promise.all([rig.client(), rig.client(), rig.client()]);
    const answers = await Promise.all(
      clients.flatMap((client, c) =>
        Array.from({ length: 200 }, (_, i) => ask(client, { id: 1000 * c + i })),
      ),
    );
    assert.deepEqual(
      answers.map(({ id }) => id),
      clients.flatMap((_, c) => Array.from({ length: 200 }, (_, i) => 1000 * c + i)),
    );
    assert.deepEqual(
      [...new Set(answers.map(({ pid }) => pid))].sort(),
      workers.map(({ pid }) => pid).sort(),
    );
  });

  it("refuses what a handler returns if it is neither nothing nor options of a reply", async () => {
    const hub = await rig.connect();
    let result: unknown;
    await using _ = await serve(hub, "results", { request: MESSAGE }, () => result as undefined);
    const client = await rig.client({}, "results");
    const wrong: readonly (readonly [unknown, RegExp])[] = [
      [5, /must return nothing, or options of the reply such as \{ meta \}, not 5\. Write data/],
      ["text", /must return nothing/],
      [[1], /must return nothing/],
      [Float32Array.of(1), /must return nothing/],
      [new Map(), /must return nothing/],
      [{ mta: 1 }, /The reply has no option/],
      [{ data: 1 }, /The reply has no option "data"/],
      [{ shape: 3 }, /shape must be an array/],
    ];
    for (const [value, words] of wrong) {
      result = value;
      await assert.rejects(client.request(undefined), (error) => {
        assert.ok(hasCode(error, "REQUEST_FAILED"), String(error));
        assert.match(error.message, words);
        return true;
      });
    }
    for (const value of [
      undefined,
      {},
      { meta: 7 },
      Object.assign(Object.create(null), { meta: 7 }),
    ]) {
      result = value;
      using reply = await client.request(undefined);
      assert.equal(reply.json ?? 7, 7);
    }
  });

  it("takes as much meta in a reply as metaBytesMax says, and still tells why it failed", async () => {
    const hub = await rig.connect();
    let bytes = 0;
    await using _ = await serve(hub, "meta", { request: MESSAGE, metaBytesMax: 8 }, () => ({
      meta: new Uint8Array(bytes),
    }));
    const client = await rig.client({}, "meta");
    for (bytes of [0, 8]) (await client.request(undefined)).release();
    bytes = 9;
    await assert.rejects(
      client.request(undefined),
      (error) =>
        hasCode(error, "REQUEST_FAILED") &&
        /its meta has 9 bytes, .*takes 8 \(metaBytesMax\)/.test(error.message),
    );
  });

  it("waits for a worker, and says if none was found", async () => {
    const client = await rig.client();
    await assert.rejects(asked(client, { timeoutMs: 50 }), {
      code: "TIMEOUT",
      message:
        /^Cannot request from service "double": no worker was found within 50 ms; the hub is at \//,
    });
    const waiting = ask(client, { id: 7 });
    await rig.worker();
    assert.equal((await waiting).id, 7);
  });

  it("says why each worker could not be used", async () => {
    const worker = await rig.worker({ clientsMax: 1 });
    const wrong = await rig.client({ device: "cuda:99" });
    await untilRejects(
      (error: CudaIpcError) => {
        assert.equal(error.code, "TIMEOUT");
        assert.match(
          error.message,
          /none of 1 workers could be used within \d+ ms: D[A-Z]+_NOT_FOUND: /,
        );
        assert.ok(
          hasCode(error.cause, "DRIVER_NOT_FOUND") || hasCode(error.cause, "DEVICE_NOT_FOUND"),
        );
        return true;
      },
      (timeoutMs) => asked(wrong, { timeoutMs }),
    );
    assert.equal((await ask(await rig.client())).pid, worker.pid);
    // An object with an offer's name that is no channel, beside a worker that has no room.
    const hub = await rig.connect();
    using _ = await hub.create(`${SERVICE}:w0none:1`, {
      dtype: "uint8",
      shape: [1],
      device: "host",
    });
    const late = await rig.client();
    await untilRejects(
      (error: CudaIpcError) => {
        assert.equal(error.code, "TIMEOUT");
        assert.match(
          error.message,
          /none of 2 workers could be used within \d+ ms: .*w0none.*clientsMax/,
        );
        assert.ok(error.cause instanceof AggregateError);
        const codes = error.cause.errors.map(({ code }: CudaIpcError) => code);
        assert.deepEqual(codes.sort(), ["NOT_FOUND", "READERS_FULL"]);
        return true;
      },
      (timeoutMs) => asked(late, { timeoutMs }),
      1000,
    );
  });

  it("names the worker that did not answer in time, and says if no worker has room", async () => {
    const worker = await rig.worker({ depth: 1 });
    const client = await rig.client();
    const timeout = (words: string) => ({
      code: "TIMEOUT",
      message: new RegExp(
        `^Cannot request from service "double": not done within 1000 ms; ${words}$`,
      ),
    });
    await ask(client, { id: 1 });
    await assert.rejects(
      asked(client, { op: "stubborn", id: 2, timeoutMs: 1000 }),
      timeout(`its worker \\(process ${worker.pid}, worker\\.js\\) has not answered`),
    );
    await assert.rejects(
      asked(client, { id: 3, timeoutMs: 1000 }),
      timeout(
        "its worker has no room for another request of this client, or its replies are not released",
      ),
    );
    worker.goOn("release");
  });

  it("answers with only meta if the service has no reply array", async () => {
    const [serving, asking] = [await rig.connect(), await rig.connect()];
    let failure: unknown;
    await using _service = await serve(
      serving,
      "length",
      { request: MESSAGE },
      async (request, reply) => {
        failure ??= await reply.loan().catch((error: unknown) => error);
        return { meta: { length: (await request.array.read()).length } };
      },
    );
    await using client = connectService(asking, "length");
    using answer = await client.request((slot) => slot.array.write(new Float64Array(8)), {
      timeoutMs: 25_000,
    });
    assert.deepEqual(answer.json, { length: 8 });
    assert.equal(answer.byteLength, 0);
    assert.match(
      String(failure),
      /^TypeError: Cannot loan a reply slot: this service replies with meta only/,
    );
  });

  it("uses a worker that starts late", async () => {
    const first = await rig.worker({ depth: 1 });
    const client = await rig.client();
    const held = ask(client, { op: "hold" });
    assert.deepEqual(await first.says(), { began: 0 });
    const behind = ask(client, { id: 1 });
    await until("it waits", () => client.waiting === 1);
    const second = await rig.worker();
    assert.equal((await behind).pid, second.pid);
    first.goOn("release");
    assert.equal((await held).pid, first.pid);
  });

  it("tells the client what a handler threw", async () => {
    await rig.worker();
    const client = await rig.client();
    await assert.rejects(asked(client, { op: "throw", id: 9 }), {
      code: "REQUEST_FAILED",
      message: 'Cannot request from service "double": the handler threw RangeError: no image 9',
    });
    assert.equal((await ask(client, { id: 1 })).id, 1);
  });

  it("keeps services with different names apart", async () => {
    const [one, other] = await Promise.all([rig.worker(), rig.worker({}, "double-2")]);
    const [client, otherClient] = await Promise.all([rig.client(), rig.client({}, "double-2")]);
    for (let id = 0; id < 5; id += 1) {
      assert.equal((await ask(client, { id })).pid, one.pid);
      assert.equal((await ask(otherClient, { id })).pid, other.pid);
    }
  });

  it("sends a worker at most depth requests, and the others wait in order", async () => {
    const worker = await rig.worker({ depth: 2 });
    const client = await rig.client();
    const done: number[] = [];
    const all = [0, 1, 2, 3, 4].map((id) =>
      ask(client, { op: "hold", id }).then(() => done.push(id)),
    );
    for (let id = 0; id < 5; id += 1) {
      assert.deepEqual(await worker.says(), { began: id });
      await until("the next two are there", () => client.waiting === Math.max(0, 3 - id));
      worker.goOn("release");
    }
    await Promise.all(all);
    assert.deepEqual(done, [0, 1, 2, 3, 4]);
  });

  it("runs concurrency requests at a time, and answers each when it is done", async () => {
    const worker = await rig.worker({ concurrency: 2, depth: 4 });
    const client = await rig.client();
    const held = ask(client, { op: "hold", id: 1 });
    assert.deepEqual(await worker.says(), { began: 1 });
    for (let id = 2; id < 7; id += 1) assert.equal((await ask(client, { id })).id, id);
    // Slots are released in order, so twice the depth of slots are taken from the first on.
    const behind = ask(client, { id: 7 });
    assert.equal(client.waiting, 1);
    worker.goOn("release");
    assert.equal((await held).id, 1);
    assert.equal((await behind).id, 7);
  });

  it("passes the deadline to the worker, and never begins an expired request", async () => {
    const worker = await rig.worker({ depth: 2 });
    const client = await rig.client();
    const stopped = await rig.clientProcess();
    // Enough for a busy machine to begin the request and to stop the client.
    stopped.goOn(JSON.stringify({ op: "hold", id: 1, timeoutMs: 8000 }));
    assert.deepEqual(await worker.says(), { began: 1 });
    // The stopped client cannot cancel. The worker must know the deadline by itself.
    stopped.kill("SIGSTOP");
    assert.deepEqual(await worker.says(), { aborted: 1, code: "TIMEOUT" });
    stopped.kill("SIGCONT");
    assert.deepEqual(await stopped.says(), { code: "TIMEOUT" });
    const stubborn = ask(client, { op: "stubborn", id: 2 });
    assert.deepEqual(await worker.says(), { began: 2 });
    await assert.rejects(asked(client, { op: "hold", id: 3, timeoutMs: 20 }), { code: "TIMEOUT" });
    await until("it is given up there", async () => (await rig.facts(worker)).waiting === 0);
    worker.goOn("release");
    await stubborn;
    const last = ask(client, { op: "hold", id: 4 });
    assert.deepEqual(await worker.says(), { began: 4 });
    worker.goOn("release");
    await last;
  });

  it("cancels a running request by its signal, and never begins a waiting one", async () => {
    const worker = await rig.worker({ depth: 2 });
    const client = await rig.client();
    const [running, queued] = [new AbortController(), new AbortController()];
    const first = asked(client, { op: "hold", id: 1, signal: running.signal });
    assert.deepEqual(await worker.says(), { began: 1 });
    const second = asked(client, { op: "hold", id: 2, signal: queued.signal });
    await until("the second waits there", async () => (await rig.facts(worker)).waiting === 1);
    queued.abort();
    await assert.rejects(second, { code: "ABORTED" });
    // Its room is free again although the first request still runs.
    const third = asked(client, { op: "hold", id: 3 });
    running.abort();
    await assert.rejects(first, { code: "ABORTED" });
    assert.deepEqual(await worker.says(), { aborted: 1, code: "ABORTED" });
    assert.deepEqual(await worker.says(), { began: 3 });
    worker.goOn("release");
    (await third).release();
  });

  it("cancels a hundred requests in a row while the first one runs", async () => {
    const worker = await rig.worker({ depth: 3 });
    const client = await rig.client();
    const first = ask(client, { op: "stubborn", id: 0 });
    assert.deepEqual(await worker.says(), { began: 0 });
    for (let id = 1; id <= 100; id += 1) {
      const given = new AbortController();
      const one = asked(client, { op: "hold", id, signal: given.signal });
      given.abort();
      await assert.rejects(one, { code: "ABORTED" });
    }
    worker.goOn("release");
    await first;
    assert.equal((await ask(client, { id: 101 })).id, 101);
  });

  it("stalls requests while the client holds all replies", async () => {
    await rig.worker({ depth: 1 });
    const client = await rig.client();
    const held = [await asked(client, { id: 1 }), await asked(client, { id: 2 })];
    await assert.rejects(asked(client, { id: 3, timeoutMs: 30 }), { code: "TIMEOUT" });
    assert.deepEqual(
      held.map(({ json }) => (json as { id: number }).id),
      [1, 2],
    );
    const third = asked(client, { id: 3 });
    for (const reply of held) reply.release();
    (await third).release();
  });

  it("returns the slot and does not retry if fill throws", async () => {
    await rig.worker();
    const client = await rig.client();
    const error = new Error("no such file");
    await assert.rejects(
      client.request(() => Promise.reject(error)),
      error,
    );
    await assert.rejects(client.request(undefined, { meta: new Uint8Array(5000) }), {
      code: "MESSAGE_TOO_LARGE",
    });
    await assert.rejects(
      client.request(() => {}, { shape: [9] }),
      RangeError,
    );
    for (let id = 0; id < 5; id += 1) await ask(client, { id });
  });

  it("leaves nothing on the hub when the client closes, and answers no open request", async () => {
    const worker = await rig.worker();
    const client = await rig.client();
    const held = asked(client, { op: "hold" });
    assert.deepEqual(await worker.says(), { began: 0 });
    const failed = assert.rejects(held, { code: "CLOSED" });
    await client.close();
    await failed;
    assert.deepEqual(await worker.says(), { aborted: 0, code: "PEER_GONE" });
    await assert.rejects(asked(client), { code: "CLOSED" });
    await rig.onlyOffers(1);
  });

  it("refuses invalid names and options", async () => {
    await assert.rejects(rig.client({}, "a b"), { code: "INVALID_NAME" });
    await assert.rejects(rig.client({}, "n".repeat(250)), { code: "INVALID_NAME" });
    await assert.rejects(rig.client({ policy: "never" as never }), TypeError);
    await assert.rejects(rig.client({ workersMax: 0 }), RangeError);
    const client = await rig.client({}, SERVICE);
    await assert.rejects(asked(client, { timeoutMs: -1 }), RangeError);
  });
});
