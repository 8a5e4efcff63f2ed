/**
 * Requests and replies whose data is written and read by streams. Nobody sees the data before the
 * stream has written it.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { DeviceArray } from "../../../src/gpu/arrays/device-array.js";
import { serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import { checkLeaks } from "../../support/leak-check.js";
import { MESSAGE, SERVICE, ServiceRig } from "./service-rig.js";

describe("a service whose work is done by streams", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  it("keeps requests, replies and slots in the order of the streams", async () => {
    const [workerHub, clientHub] = [await rig.connect(), await rig.connect()];
    using workerStream = workerHub.device().createStream();
    using clientStream = clientHub.device().createStream();
    using factor = DeviceArray.allocate(clientHub.device(), MESSAGE);
    const options = { request: MESSAGE, reply: MESSAGE, depth: 2, stream: workerStream } as const;
    await using _service = await serve(workerHub, SERVICE, options, async (request, reply) => {
      const slot = await reply.loan();
      slot.array.copyFrom(request.array as DeviceArray<"float64">, { stream: workerStream });
      await slot.array.affine(2, 1, { stream: workerStream });
      return undefined;
    });
    await using client = connectService(clientHub, SERVICE, { stream: clientStream });
    using timeline = clientHub.device().createTimeline();
    for (let round = 1; round <= 20; round += 1) {
      // The stream fills the request only after the request was sent.
      clientStream.wait(timeline, round);
      const asked = client.request(async (slot) => {
        await slot.array.fill(round, { stream: clientStream });
      });
      setImmediate(() => timeline.signal(round));
      using reply = await asked;
      await factor.copyFrom(reply.array as DeviceArray<"float64">, { stream: clientStream });
      reply.release();
      await clientStream.synchronize();
      assert.deepEqual(await factor.read(), new Float64Array(8).fill(2 * round + 1));
    }
  });

  it("tells of an error in the slot that the handler had loaned, and waits for no other reply", async () => {
    const [workerHub, clientHub] = [await rig.connect(), await rig.connect()];
    using stream = workerHub.device().createStream();
    const options = { request: MESSAGE, reply: MESSAGE, depth: 1, stream } as const;
    await using _service = await serve(workerHub, SERVICE, options, async (request, reply) => {
      const slot = await reply.loan();
      await slot.array.fill(1, { stream });
      if (request.json === "fail") throw new Error("no");
      return undefined;
    });
    await using client = connectService(clientHub, SERVICE);
    // The client holds one of the two slots for replies.
    using _held = await client.request(() => {}, { meta: "held" });
    const failing = client.request(() => {}, { meta: "fail", timeoutMs: 20_000 });
    await assert.rejects(failing, { code: "REQUEST_FAILED" });
  });

  it("goes on after requests that were aborted while a stream filled them", async () => {
    const worker = await rig.worker();
    const hub = await rig.connect();
    using stream = hub.device().createStream();
    await using client = connectService(hub, SERVICE, { stream });
    for (let i = 0; i < 3; i += 1) {
      const error = new Error("no");
      // More in a row than the channel has slots.
      for (let more = 0; more < 6; more += 1) {
        const filling = client.request(async (slot) => {
          await slot.array.fill(i, { stream });
          throw error;
        });
        await assert.rejects(filling, error);
      }
      using reply = await client.request((slot) => slot.array.fill(i, { stream }), {
        meta: { op: "double" },
      });
      await stream.synchronize();
      assert.deepEqual(await reply.array.read(), new Float64Array(8).fill(2 * i));
    }
    assert.equal(worker.complaint, "");
  });
});
