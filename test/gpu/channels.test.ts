/**
 * Channels on a real GPU: two processes ordered by their streams, CPU readers, and either side
 * killed with work pending.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ChannelReader } from "../../src/channel/channel-reader.js";
import { Device, DeviceArray, type Hub } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { Actor } from "../support/actor.js";
import { soon } from "../support/until.js";
import { withGpuHub } from "./gpu-hub.js";

const PEER = new URL("actors/channel-peer.js", import.meta.url);
const ELEMENTS = 16_384;
const MESSAGES = 2000;
const BATCH = 50;
const LATE = { timeoutMs: 60_000 };

function whyNoSecondGpu(): string | undefined {
  const reason = whyNoGpu();
  if (reason !== undefined) return reason;
  try {
    Device.open("cuda:1").close();
    return undefined;
  } catch {
    return "there is one GPU";
  }
}

describe("channels on cuda:0", { skip: whyNoGpu() ?? false }, () => {
  let hub: Hub;
  withGpuHub((it) => {
    hub = it;
  });

  /** Starts a writer that waits for a command. */
  async function startWriter(task: "writes" | "stuck", count: number): Promise<Actor> {
    const actor = new Actor(PEER, { args: [hub.socketPath, "cuda:0", task, String(count)] });
    assert.equal(await actor.says(), "created");
    return actor;
  }

  /** Reads to the end by a stream of this device, and checks every element. */
  async function readByStream(device: Device, reader: ChannelReader): Promise<void> {
    const stream = reader.stream as NonNullable<typeof reader.stream>;
    using out = DeviceArray.allocate(device, { dtype: "uint32", shape: [BATCH, ELEMENTS] });
    for (let first = 0; first < MESSAGES; first += BATCH) {
      for (let index = 0; index < BATCH; index += 1) {
        using slot = await reader.next(LATE);
        assert.equal(slot?.sequence, first + index);
        await out.slice(index).copyFrom(slot.array.expectDType("uint32"), { stream });
      }
      await stream.synchronize(LATE);
      const values = await out.read();
      assert.ok(values.every((value, at) => value === first + Math.floor(at / ELEMENTS)));
    }
    assert.equal(await reader.next(LATE), undefined);
  }

  it("pass messages from a process's GPU stream to another's, in order and whole", async () => {
    await using writer = await startWriter("writes", MESSAGES);
    using stream = hub.device().createStream();
    using reader = await hub.openChannel("channel", { from: "oldest", stream });
    writer.goOn();
    await readByStream(hub.device(), reader);
    assert.equal(await writer.exited(), 0, writer.complaint);
  });

  it("are read by CPUs beside GPUs", async () => {
    await using writer = await startWriter("writes", 200);
    using reader = await hub.openChannel("channel", { from: "oldest" });
    writer.goOn();
    let next = 0;
    for await (const slot of reader) {
      const values = await slot.array.expectDType("uint32").read();
      assert.ok(
        values.length === ELEMENTS && values.every((value) => value === next),
        `message ${next}`,
      );
      next += 1;
    }
    assert.equal(next, 200);
    assert.equal(await writer.exited(), 0, writer.complaint);
  });

  it("get their slots back from a reader that is killed while its stream holds them", async () => {
    using stream = hub.device().createStream();
    using writer = await hub.createChannel("channel", {
      dtype: "uint32",
      shape: [ELEMENTS],
      slots: 4,
    });
    await using holds = new Actor(PEER, { args: [hub.socketPath, "cuda:0", "holds", "4"] });
    for (let sent = 0; sent < 4; sent += 1) (await writer.loan(LATE)).commit();
    using reader = await hub.openChannel("channel", { from: "oldest", stream });
    assert.equal(await holds.says(), "holds");
    for (let read = 0; read < 4; read += 1) (await reader.next(LATE))?.release();
    assert.equal(writer.tryLoan(), undefined);
    const waiting = writer.loan(LATE);
    holds.kill("SIGKILL");
    (await soon("the writer goes on", waiting)).commit();
    (await reader.next(LATE))?.release();
    await stream.synchronize(LATE);
  });

  it("are drained if their writer is killed at work, and nobody waits for the rest", async () => {
    await using writer = await startWriter("stuck", 5);
    using stream = hub.device().createStream();
    using byStream = await hub.openChannel("channel", { from: "oldest", stream });
    using byCpu = await hub.openChannel("channel", { from: "oldest" });
    writer.goOn();
    for (let read = 0; read < 6; read += 1) (await byStream.next(LATE))?.release();
    assert.equal(await writer.says(), "stuck");
    assert.equal(stream.isIdle(), false);
    writer.kill("SIGKILL");
    await assert.rejects(stream.synchronize(LATE), { code: "PEER_GONE" });
    for (let read = 0; read < 5; read += 1) {
      using slot = await byCpu.next(LATE);
      const values = await slot?.array.expectDType("uint32").read();
      assert.ok(values?.every((value) => value === read));
    }
    await assert.rejects(byCpu.next(LATE), { code: "PEER_GONE" });
    await assert.rejects(byStream.next(LATE), { code: "PEER_GONE" });
    assert.deepEqual([byCpu.received, byCpu.missed], [5, 1]);
  });

  it("are read by another GPU", { skip: whyNoSecondGpu() ?? false }, async () => {
    await using writer = await startWriter("writes", MESSAGES);
    const device = hub.device("cuda:1");
    using stream = device.createStream();
    using reader = await hub.openChannel("channel", { from: "oldest", device: "cuda:1", stream });
    writer.goOn();
    await readByStream(device, reader);
    assert.equal(await writer.exited(), 0, writer.complaint);
  });
});
