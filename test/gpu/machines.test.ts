/**
 * Arrays, bundles, channels and requests in GPU memory from one machine to another: two hubs and
 * two bridges. Each has a GPU of its own if there are two; else they use the same one.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { connectService, type SlotToFill, serve } from "../../src/doors/service.js";
import { connect, Device, type Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { skipWithoutEngines } from "../support/machines/engines.js";
import { TestMachine } from "../support/machines/test-machine.js";
import { TestNats } from "../support/machines/test-nats.js";

const LATE = { timeoutMs: 60_000 };

function deviceOfOther(): string {
  using first = Device.open("cuda:0");
  return first.deviceCount > 1 ? "cuda:1" : "cuda:0";
}

describe("another machine's GPU memory", { skip: whyNoGpu() ?? skipWithoutEngines }, () => {
  let nats: TestNats;
  let one: TestMachine;
  let other: TestMachine;
  let hubOfOne: Hub;
  let hubOfOther: Hub;

  before(async () => {
    nats = await TestNats.start();
    one = await TestMachine.start("one", nats, { args: ["--announce", "*"] });
    const device = deviceOfOther();
    other = await TestMachine.start("other", nats, { args: ["--device", device] });
    hubOfOne = await connect({ socket: one.hub.socket, device: "cuda:0" });
    hubOfOther = await connect({ socket: other.hub.socket, device });
  });
  after(async () => {
    hubOfOther?.close();
    hubOfOne?.close();
    await other?.[Symbol.asyncDispose]();
    await one?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });

  it("becomes GPU memory here, with the same values", async () => {
    for (const length of [0, 1, 1_048_577, 10_000_000]) {
      const name = `array-${length}`;
      const values = Float32Array.from({ length }, (_, i) => i % 1009);
      using _original = await hubOfOne.put(name, values);
      using copy = await hubOfOther.open(name, { from: "any", dtype: "float32", ...LATE });
      assert.equal(copy.device.cpuVisible, false);
      assert.equal(copy.device.ordinal, hubOfOther.device().ordinal);
      assert.ok(Buffer.from((await copy.read()).buffer).equals(Buffer.from(values.buffer)));
    }
  });

  it("is a bundle, too", async () => {
    const arrays = {
      a: { dtype: "int64", shape: [3] },
      b: { dtype: "uint8", shape: [2, 5] },
    } as const;
    using original = await hubOfOne.createBundle("bundle", arrays, { metadata: { format: "pt" } });
    await original.array("a").write(BigInt64Array.of(1n, -2n, 3n));
    await original.publish();
    using copy = await hubOfOther.openBundle("bundle", { from: "any", ...LATE });
    assert.deepEqual([...(await copy.array("a").read())], [1n, -2n, 3n]);
    assert.deepEqual(copy.metadata, { format: "pt" });
  });

  it("comes in the messages of a channel, also from a stream", async () => {
    const options = { dtype: "float32", shape: [1_000_000], slots: 4 } as const;
    using writer = await hubOfOne.createChannel("frames", options);
    using stream = writer.device.createStream();
    using reader = await hubOfOther.openChannel("frames", { machine: "any", ...LATE });
    for (const [index, length] of [1, 16_384, 16_385, 1_000_000].entries()) {
      const values = Float32Array.from({ length }, (_, i) => i + index);
      const slot = await writer.loan({ stream, ...LATE });
      using part = slot.array.slice({ stop: length });
      await part.write(values);
      slot.commit({ stream, shape: [length], meta: { index } });
      using found = await reader.next(LATE);
      assert.deepEqual(found?.json, { index });
      assert.deepEqual(await found?.array.read(), values);
    }
  });

  it("has the requests and replies of a service", async () => {
    const message = { dtype: "float32", shape: [1_000_000] } as const;
    const options = { request: message, reply: message, sharing: { machines: true } } as const;
    await using _service = await serve(hubOfOne, "double", options, async (request, reply) => {
      const values = await request.array.read();
      const slot = await reply.loan();
      using part = slot.array.slice({ stop: values.length });
      await part.write(values.map((value) => 2 * value));
      return { shape: [values.length] };
    });
    await using client = connectService(hubOfOther, "double", { machine: "any" });
    for (const length of [1, 16_384, 16_385, 1_000_000]) {
      const values = Float32Array.from({ length }, (_, i) => i % 1009);
      const fill = async ({ array }: SlotToFill) => {
        using part = array.slice({ stop: length });
        await part.expectDType("float32").write(values);
      };
      using reply = await client.request(fill, { shape: [length], ...LATE });
      assert.equal(reply.array.device.cpuVisible, false);
      assert.deepEqual(
        await reply.array.read(),
        values.map((value) => 2 * value),
      );
    }
  });
});
