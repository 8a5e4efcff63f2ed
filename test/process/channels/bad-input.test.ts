/**
 * Invalid channels, invalid calls, and invalid words from other processes. Each causes an error
 * with a code, and leaves nothing behind.
 */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import type { CreateChannelOptions } from "../../../src/client/objects/shared-channel.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const SMALL = { dtype: "uint8", shape: [64], slots: 2, readersMax: 2 } as const;

describe("an invalid channel", () => {
  let testHub: TestHub;
  let hub: Hub;
  checkLeaks(async () => {
    await until("the hub holds nothing", async () => (await hub.status()).objects === 0);
    await hub.close();
    await testHub[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    testHub = await TestHub.start();
    hub = await testHub.connect();
  });
  it("is refused by createChannel()", async () => {
    const refused: { readonly error: object; readonly [option: string]: unknown }[] = [
      { shape: [0], error: RangeError },
      { shape: [2, -1], error: RangeError },
      { shape: [1, 1, 1, 1, 1, 1, 1, 1, 1], error: RangeError },
      { shape: undefined, error: TypeError },
      { shape: undefined, byteLength: 0, error: RangeError },
      { byteLength: 64, error: TypeError },
      { dtype: "float12", error: { code: "UNSUPPORTED_DTYPE" } },
      { slots: 0, error: RangeError },
      { slots: 1_000_000, error: RangeError },
      { slots: 1.5, error: RangeError },
      { readersMax: 0, error: RangeError },
      { readersMax: 65, error: RangeError },
      { metaBytesMax: -1, error: RangeError },
      { metaBytesMax: 65_537, error: RangeError },
      { slots: 65_536, metaBytesMax: 65_536, error: RangeError },
      { whenFull: "drop", error: TypeError },
      { whenWriterGone: "resurrect", error: TypeError },
      { shape: [2 ** 52], error: RangeError },
      { shape: [2 ** 46], error: { code: "OUT_OF_MEMORY" } },
    ];
    for (const { error, ...options } of refused) {
      const wrong = { ...SMALL, ...options } as unknown as CreateChannelOptions;
      await assert.rejects(hub.createChannel("channel", wrong), error, JSON.stringify(options));
    }
    await assert.rejects(hub.createChannel("", SMALL), { code: "INVALID_NAME" });
    await assert.rejects(hub.createChannel("channel", { ...SMALL, signal: AbortSignal.abort() }), {
      code: "ABORTED",
    });
  });

  it("is refused by opens of the wrong kind and by more readers than it has seats", async () => {
    using writer = await hub.createChannel("channel", SMALL);
    await assert.rejects(hub.createChannel("channel", SMALL), { code: "NAME_TAKEN" });
    await assert.rejects(hub.open("channel"), { code: "WRONG_KIND" });
    await assert.rejects(hub.openTimeline("channel"), { code: "WRONG_KIND" });
    await assert.rejects(hub.resumeChannel("channel"), { code: "IN_USE" });
    await assert.rejects(hub.openChannel("other", { wait: false }), { code: "NOT_FOUND" });
    await assert.rejects(hub.openChannel("other", { timeoutMs: 1 }), { code: "TIMEOUT" });
    await assert.rejects(hub.openChannel("channel", { spinMs: -1 }), RangeError);
    await assert.rejects(hub.openChannel("channel", { from: "middle" as "next" }), TypeError);
    using array = await hub.create("array", { dtype: "uint8", shape: [1] });
    await array.publish();
    await assert.rejects(hub.openChannel("array"), { code: "WRONG_KIND" });
    using one = await hub.openChannel("channel");
    {
      using _other = await hub.openChannel("channel");
      await assert.rejects(hub.openChannel("channel"), { code: "READERS_FULL" });
    }
    using _third = await hub.openChannel("channel");
    writer.tryLoan()?.commit();
    assert.equal((await one.next())?.sequence, 0);
  });

  it("counts at its end what was overwritten after the last message", async () => {
    for (const end of ["close", "abandon"] as const) {
      using writer = await hub.createChannel("channel", { ...SMALL, slots: 1 });
      using reader = await hub.openChannel("channel", { lossy: true });
      (await writer.loan()).commit();
      (await reader.next())?.release();
      for (let sent = 1; sent < 4; sent += 1) (await writer.loan()).commit();
      // With one slot, this takes away the last message.
      await writer.loan();
      assert.equal(reader.tryNext(), undefined);
      writer[end]();
      for (let count = 0; count < 2; count += 1) {
        if (end === "close") assert.equal(await reader.next(), undefined);
        else await assert.rejects(reader.next(), { code: "PEER_GONE" });
        assert.deepEqual([reader.received, reader.missed], [1, 3]);
      }
    }
  });

  it("is closed on either side and at every stage when its hub object closes", async () => {
    const other = await testHub.connect();
    const writer = await other.createChannel("channel", SMALL);
    const reader = await other.openChannel("channel");
    const observer = await other.observeChannel("channel");
    const slot = await writer.loan();
    const waiting = assert.rejects(reader.next(), { code: "CLOSED" });
    const opening = assert.rejects(other.openChannel("never"), { code: "CLOSED" });
    await other.close();
    await waiting;
    await opening;
    assert.deepEqual([writer.open, reader.open, slot.open], [false, false, false]);
    assert.throws(() => observer.statistics(), { code: "CLOSED" });
    await assert.rejects(other.createChannel("channel", SMALL), { code: "CLOSED" });
    await assert.rejects(other.openChannel("channel"), { code: "CLOSED" });
  });

  it("delays the hub object's close until its streams finish their messages", async () => {
    const other = await testHub.connect();
    const writer = await other.createChannel("channel", SMALL);
    using reader = await hub.openChannel("channel");
    using gate = hub.device().createTimeline();
    const stream = other.device().createStream();
    stream.wait(gate, 1);
    {
      using slot = await writer.loan({ stream });
      slot.array.buffer.enqueue("write", stream, (mapped) => {
        const pointer = mapped.pointerAt(slot.array.layout.byteOffset);
        stream.device.driver.fill(stream.handle, pointer, { elementBytes: 1, value: 7 }, 64);
      });
      slot.commit();
    }
    const closing = other.close();
    assert.equal(reader.tryNext(), undefined);
    setTimeout(() => gate.signal(1), 50);
    {
      using slot = await reader.next();
      assert.deepEqual([...(slot?.bytes ?? [])], new Array(64).fill(7));
    }
    await closing;
    assert.equal(await reader.next(), undefined);
    stream.close();
  });
});
