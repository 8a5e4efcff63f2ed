/**
 * Services on a real GPU: requests and replies in its memory, ordered by streams of two processes,
 * and a killed worker.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connectService } from "../../src/doors/service.js";
import { DeviceArray, type Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { Actor } from "../support/actor.js";
import { withGpuHub } from "./gpu-hub.js";

const WORKER = new URL("actors/service-worker.js", import.meta.url);
const ELEMENTS = 65_536;
const REQUESTS = 500;
const LATE = { timeoutMs: 60_000 };

describe("services on cuda:0", { skip: whyNoGpu() ?? false }, () => {
  let hub: Hub;
  withGpuHub((it) => {
    hub = it;
  });

  async function startWorker(): Promise<Actor> {
    const worker = new Actor(WORKER, { args: [hub.socketPath, "cuda:0"] });
    assert.equal(await worker.says(), "serves");
    return worker;
  }

  it("compute on the GPU from the clients' streams, which then use the replies", async () => {
    await using worker = await startWorker();
    using stream = hub.device().createStream();
    await using client = connectService(hub, "affine", { stream });
    using sums = DeviceArray.allocate(hub.device(), {
      dtype: "float32",
      shape: [REQUESTS, ELEMENTS],
    });
    for (let first = 0; first < REQUESTS; first += 4) {
      const requests = Array.from({ length: Math.min(4, REQUESTS - first) }, async (_, index) => {
        const fill = async (slot: { array: DeviceArray }) => {
          await slot.array.expectDType("float32").iota(first + index, 1, { stream });
        };
        using reply = await client.request(fill, LATE);
        await sums.slice(first + index).copyFrom(reply.array.expectDType("float32"), { stream });
      });
      await Promise.all(requests);
    }
    await stream.synchronize(LATE);
    const values = await sums.read();
    const isWrong = (value: number, at: number) =>
      value !== (Math.floor(at / ELEMENTS) + (at % ELEMENTS)) * 2 + 1;
    assert.equal(values.findIndex(isWrong), -1);
    worker.goOn();
    assert.equal(await worker.exited(), 0, worker.complaint);
  });

  it("send requests to another worker if one is killed", async () => {
    await using first = await startWorker();
    using stream = hub.device().createStream();
    await using client = connectService(hub, "affine", { stream, policy: "fail" });
    const fill = async (slot: { array: DeviceArray }) => {
      await slot.array.expectDType("float32").iota(7, 1, { stream });
    };
    {
      using reply = await client.request(fill, LATE);
      assert.deepEqual(reply.json, { pid: first.pid });
    }
    await using second = await startWorker();
    await assert.rejects(client.request(fill, { ...LATE, meta: { die: true } }), {
      code: "PEER_GONE",
    });
    for (let round = 0; round < 20; round += 1) {
      using reply = await client.request(fill, LATE);
      // The stream waits for the reply; the CPU does not.
      await stream.synchronize(LATE);
      const values = await reply.array.expectDType("float32").read();
      assert.equal(
        values.findIndex((value, at) => value !== (7 + at) * 2 + 1),
        -1,
      );
    }
    second.kill("SIGKILL");
    first.kill("SIGKILL");
  });
});
