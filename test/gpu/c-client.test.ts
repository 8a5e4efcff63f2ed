/** The client in C shares GPU memory with this process: arrays, and the slots of a channel. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { DeviceArray, type Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { CPrograms, skip } from "../process/c/c-programs.js";
import { withGpuHub } from "./gpu-hub.js";

const LIMIT = { timeoutMs: 60_000 };
const COUNT = 500;

function hex(values: NodeJS.ArrayBufferView): string {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("hex");
}

describe("the client in C on cuda:0", { skip: whyNoGpu() ?? skip }, () => {
  let hub: Hub;
  let programs: CPrograms;
  withGpuHub((it) => {
    hub = it;
  });
  before(() => {
    programs = new CPrograms({ sanitize: false });
  });
  after(() => programs?.[Symbol.dispose]());

  const peer = (command: string, ...args: string[]) =>
    programs.peerOn("cuda:0", hub.socketPath, command, ...args);

  it("reads what Node wrote to a GPU", async () => {
    const values = Float32Array.from({ length: 1000 }, (_, index) => index / 7);
    using array = await hub.create("node", { dtype: "float32", shape: [1000] });
    await array.write(values);
    await array.publish();
    await using reader = peer("reads", "node");
    const said = { dtype: "float32", shape: [1000], contiguous: true, hex: hex(values) };
    assert.deepEqual(await reader.said(), said);
    await reader.finish();
  });

  it("makes an array on a GPU, and sees what Node does to it", async () => {
    const values = Int32Array.of(1, 2, 3, 4);
    await using maker = peer("makes", "c", "int32", hex(values), "4");
    assert.equal(await maker.said(), "published");
    {
      using opened = await hub.open("c", { access: "read-write", dtype: "int32", ...LIMIT });
      assert.equal(opened.device.name, "cuda:0");
      assert.deepEqual(await opened.read(), values);
      await opened.affine(10, 0);
    }
    maker.tell();
    assert.equal(await maker.said(), hex(Int32Array.of(10, 20, 30, 40)));
    await maker.finish();
  });

  it("reads a channel whose slots a stream of Node writes", async () => {
    using writer = await hub.createChannel("node-channel", {
      dtype: "uint8",
      shape: [4096],
      slots: 4,
    });
    using stream = hub.device().createStream();
    await using reader = peer("counts", "node-channel");
    assert.equal(await reader.said(), "reading");
    for (let sequence = 0; sequence < COUNT; sequence += 1) {
      using slot = await writer.loan({ stream, ...LIMIT });
      await slot.array.fill(sequence % 251, { stream });
      slot.commit({ meta: sequence });
    }
    await stream.synchronize(LIMIT);
    writer.close();
    const { wrong, received, end } = (await reader.said()) as Record<string, unknown>;
    assert.deepEqual({ wrong, received, end }, { wrong: 0, received: COUNT, end: "closed" });
    await reader.finish();
  });

  it("writes a channel that a stream of Node reads", async () => {
    await using writer = peer("writes", "c-channel", "0", String(COUNT));
    assert.equal(await writer.said(), "writing");
    using stream = hub.device().createStream();
    using reader = await hub.openChannel("c-channel", { stream, ...LIMIT });
    writer.tell();
    for (let sequence = 0; sequence < COUNT; sequence += 1) {
      using slot = await reader.next(LIMIT);
      assert.equal(slot?.sequence, sequence);
      const length = slot.byteLength;
      using out = DeviceArray.allocate(hub.device(), { dtype: "uint8", shape: [length] });
      await out.copyFrom(slot.array.expectDType("uint8"), { stream });
      await stream.synchronize(LIMIT);
      assert.ok((await out.read()).every((byte) => byte === sequence % 251));
    }
    assert.deepEqual(await writer.said(), { refused: 0, readers: 1 });
    writer.tell();
    assert.equal(await reader.next(LIMIT), undefined);
    await writer.finish();
  });
});
