/** A worker that closes keeps its time limit, whatever its handlers, its hub and its clients do. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { CudaIpcError } from "../../../src/base/errors.js";
import { ENVELOPE_BYTES, encodeEnvelope } from "../../../src/service/envelope.js";
import { serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import { requestName } from "../../../src/service/service-names.js";
import { checkLeaks } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";
import { MESSAGE, SERVICE, ServiceRig } from "./service-rig.js";

/** Half of what a request to a hub that stands still takes. */
const DEADLINE_MS = 15_000;

describe("close() of a service", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  it("abandons a request that holds its reply slot while another request waits", async () => {
    const options = { request: MESSAGE, reply: MESSAGE, depth: 2 } as const;
    const service = await serve(await rig.connect(), SERVICE, options, async (request, reply) => {
      await reply.loan();
      return new Promise<undefined>((resolve) => {
        request.signal.addEventListener("abort", () => resolve(undefined));
      });
    });
    await using client = connectService(await rig.connect(), SERVICE, { policy: "fail" });
    const begun = client.request(undefined);
    const waiting = client.request(undefined).catch((error: CudaIpcError) => error.code);
    await until("one runs and one waits", () => service.running === 1 && service.waiting === 1);
    const closed = service.close({ timeoutMs: 20 });
    await assert.rejects(soon("the request is abandoned", begun, DEADLINE_MS), {
      code: "PEER_GONE",
    });
    await closed;
    await client.close();
    // It was never begun, so it waited for another worker.
    assert.equal(await waiting, "CLOSED");
  });

  it("keeps the limit and the signal of a second call while the first waits", async () => {
    let finish = () => {};
    const finished = new Promise<undefined>((resolve) => {
      finish = () => resolve(undefined);
    });
    const service = await serve(await rig.connect(), SERVICE, { request: MESSAGE }, () => finished);
    await using client = connectService(await rig.connect(), SERVICE);
    const begun = client.request(undefined);
    await until("the request runs", () => service.running === 1);
    const first = service.close();
    const second = service.close({ timeoutMs: 20 });
    await assert.rejects(soon("the second call ends", second, DEADLINE_MS), {
      code: "TIMEOUT",
      message: /^Cannot close service "double": not done within 20 ms; requests that still run: 1$/,
    });
    const aborted = service.close({ signal: AbortSignal.timeout(5) });
    await assert.rejects(soon("the third call ends", aborted, DEADLINE_MS), { code: "ABORTED" });
    finish();
    (await begun).release();
    await Promise.all([first, service.close()]);
  });

  it("does not wait for a client that releases none of its replies", async () => {
    const options = { request: MESSAGE, depth: 1 } as const;
    const service = await serve(await rig.connect(), SERVICE, options, async () => undefined);
    const hub = await rig.connect();
    const [{ name: offer } = { name: "" }] = await hub.list();
    using replies = await hub.openChannel(offer, { from: "oldest" });
    using requests = await hub.createChannel(requestName(offer), {
      ...MESSAGE,
      slots: 2,
      readersMax: 1,
      metaBytesMax: ENVELOPE_BYTES + 256,
    });
    for (let number = 1; service.running === 0; number += 1) {
      using slot = await soon("a slot", requests.loan(), DEADLINE_MS);
      const meta = encodeEnvelope(offer, { kind: "request", number }, undefined, ENVELOPE_BYTES);
      slot.commit({ byteLength: 0, meta });
      await until("it is answered or held up", () => service.answered === number);
    }
    await soon("the service is closed", service.close({ timeoutMs: 20 }), DEADLINE_MS);
    assert.equal(replies.open, true);
  });

  it("does not wait for a hub that stands still while it makes the next offer", async (t) => {
    const hub = await rig.connect();
    const options = { request: MESSAGE } as const;
    const service = await serve(hub, SERVICE, options, async () => undefined);
    const create = hub.createOffer.bind(hub);
    const { mock } = t.mock.method(hub, "createOffer", ((...made) => {
      rig.hub.kill("SIGSTOP");
      return create(...made);
    }) as typeof create);
    await using client = connectService(await rig.connect(), SERVICE);
    try {
      (await client.request(undefined)).release();
      await until("the next offer is made", () => mock.callCount() > 0);
      await soon("the service is closed", service.close(), DEADLINE_MS);
    } finally {
      rig.hub.kill("SIGCONT");
    }
  });
});

describe("close() of a client", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  it("fails a request whose callback never ends", async () => {
    await rig.worker();
    const client = connectService(await rig.connect(), SERVICE);
    let fills = 0;
    const waiting = client.request(
      () => {
        fills += 1;
        return new Promise(() => {});
      },
      { timeoutMs: Number.POSITIVE_INFINITY },
    );
    const failed = assert.rejects(soon("it fails", waiting, DEADLINE_MS), { code: "CLOSED" });
    await until("it is being filled", () => fills > 0);
    await client.close();
    await failed;
  });
});
