/** Channels of another machine: two hubs, two bridges, a NATS server, and UCX over TCP. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { JsonText } from "../../../src/channel/message-meta.js";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { until } from "../../support/until.js";

/** Short, because a test waits for longer than that. Long enough for a busy computer. */
const SILENCE_MS = 10_000;
const bytes = { dtype: "uint8", shape: [200_000] } as const;

describe("a channel of another machine", { skip: skipWithoutEngines }, () => {
  let nats: TestNats;
  let one: TestMachine;
  let other: TestMachine;
  let hubOfOne: Hub;
  let hubOfOther: Hub;

  before(async () => {
    nats = await TestNats.start();
    const limits = { machineSilenceMs: SILENCE_MS };
    one = await TestMachine.start("one", nats, { args: ["--announce", "*"], limits });
    other = await TestMachine.start("other", nats, { limits });
    hubOfOne = await one.connect();
    hubOfOther = await other.connect();
  });
  after(async () => {
    hubOfOther?.close();
    hubOfOne?.close();
    await other?.[Symbol.asyncDispose]();
    await one?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });

  const open = (name: string, options = {}) =>
    hubOfOther.openChannel(name, { machine: "any", timeoutMs: 20_000, ...options });

  it("has its messages in order, with numbers, meta, shapes and bytes", async () => {
    using writer = await hubOfOne.createChannel("frames", { ...bytes, metaBytesMax: 512 });
    using early = await hubOfOne.openChannel("frames", { lossy: true });
    for (let i = 0; i < 3; i += 1) (await writer.loan()).commit();
    using reader = await open("frames");
    const metas = [{ camera: "süd", at: 1e21 }, Uint8Array.of(1, 0, 255), undefined] as const;
    const sizes = [0, 1, 3, 65_536, 65_537, 200_000] as const;
    for (const [index, byteLength] of sizes.entries()) {
      const slot = await writer.loan();
      slot.bytes.fill(index + 1);
      const meta = metas[index % 3];
      const size = index === 2 ? { shape: [3, 1] } : { byteLength };
      slot.commit({ ...size, ...(meta === undefined ? {} : { meta }) });
      using found = await reader.next({ timeoutMs: 30_000 });
      assert.equal(found?.sequence, index + 3);
      assert.equal(found?.missed, 0);
      assert.deepEqual(found?.array.shape, index === 2 ? [3, 1] : [byteLength]);
      assert.ok(found?.bytes.every((it) => it === index + 1));
      if (meta instanceof Uint8Array) assert.deepEqual(found?.meta, meta);
      else assert.deepEqual(found?.json, meta);
    }
    assert.equal(early.received, 0);
    writer.close();
    assert.equal(await reader.next({ timeoutMs: 30_000 }), undefined);
  });

  it("carries meta that its writer wrongly calls JSON as it is, and goes on", async () => {
    using writer = await hubOfOne.createChannel("wrong", bytes);
    using reader = await open("wrong");
    for (const meta of [JsonText.of(Uint8Array.of(0x7b)), JsonText.of(new Uint8Array()), "good"])
      (await writer.loan()).commit({ meta });
    for (const byteLength of [1, 0]) {
      using found = await reader.next({ timeoutMs: 30_000 });
      assert.equal(found?.meta.byteLength, byteLength);
      assert.throws(() => found?.json, { code: "CHANNEL_CORRUPT" });
    }
    using found = await reader.next({ timeoutMs: 30_000 });
    assert.equal(found?.json, "good");
  });

  it("is read once for all readers of a machine, and only while somebody reads", async () => {
    using writer = await hubOfOne.createChannel("shared", { byteLength: 8, slots: 16 });
    using first = await open("shared");
    using second = await hubOfOther.openChannel("shared");
    assert.equal(writer.readers, 1);
    const write = async () => {
      for (let i = 0; i < 100; i += 1)
        (await writer.loan({ timeoutMs: 30_000 })).commit({ meta: i });
    };
    const read = async (reader: typeof first) => {
      for (let i = 0; i < 100; i += 1) {
        using found = await reader.next({ timeoutMs: 30_000 });
        assert.equal(found?.json, i);
      }
    };
    await Promise.all([write(), read(first), read(second)]);
    assert.match((await other.run("ls", "shared")).out, /replica of one/);
    first.close();
    second.close();
    await until("the bridge has left", () => writer.readers === 0);
    await other.says('no longer carried: "shared"');
  });

  it("holds the writer back like a reader of its own, with each policy", async () => {
    for (const whenFull of ["wait", "drop-newest", "error"] as const) {
      const name = `full-${whenFull}`;
      using writer = await hubOfOne.createChannel(name, { byteLength: 8, slots: 2, whenFull });
      using reader = await open(name);
      let sent = 0;
      // Two slots on each machine, and what is under way between them.
      for (; ; sent += 1) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        using slot = writer.tryLoan();
        if (slot === undefined) break;
        slot.commit({ meta: sent });
        assert.ok(sent < 20, "nothing holds the writer back");
      }
      // Longer than a link may be silent.
      if (whenFull === "wait")
        await new Promise((resolve) => setTimeout(resolve, 1.5 * SILENCE_MS));
      for (let i = 0; i < sent; i += 1) {
        using found = await reader.next({ timeoutMs: 30_000 });
        assert.equal(found?.json, i);
      }
      assert.equal(reader.missed, 0);
    }
  });

  for (const slots of [1, 2, 4])
    it(`counts what was overwritten before it could be carried, with slots: ${slots}`, async () => {
      const name = `fast-${slots}`;
      const options = { ...bytes, slots, whenFull: "drop-oldest" } as const;
      using writer = await hubOfOne.createChannel(name, options);
      using reader = await open(name);
      const sent = 200;
      // Then the first message that is carried is not the first one.
      one.signalBridge("SIGSTOP");
      try {
        for (let i = 0; i < sent; i += 1) {
          const slot = await writer.loan({ timeoutMs: 30_000 });
          slot.bytes[0] = i;
          slot.commit({ meta: i });
        }
        writer.close();
      } finally {
        one.signalBridge("SIGCONT");
      }
      let next = 0;
      for await (using found of reader) {
        assert.equal(found.sequence, next + found.missed);
        assert.equal(found.json, found.sequence);
        assert.equal(found.bytes[0], found.sequence);
        next = found.sequence + 1;
      }
      assert.equal(reader.received + reader.missed, next);
      assert.ok(reader.missed > 0, `${reader.received} of ${sent} messages came`);
    });

  it("counts what was overwritten after the last message that was carried", async () => {
    const options = { byteLength: 8, slots: 1, whenFull: "drop-oldest" } as const;
    using writer = await hubOfOne.createChannel("rest", options);
    using reader = await open("rest");
    (await writer.loan()).commit();
    using first = await reader.next({ timeoutMs: 30_000 });
    assert.equal(first?.sequence, 0);
    await until("the bridge holds no slot", () => {
      using slot = writer.tryLoan();
      return slot !== undefined;
    });
    one.signalBridge("SIGSTOP");
    try {
      for (let sent = 1; sent < 4; sent += 1) (await writer.loan({ timeoutMs: 30_000 })).commit();
      // With one slot, this takes away the last message.
      await writer.loan();
      writer.close();
    } finally {
      one.signalBridge("SIGCONT");
    }
    assert.equal(await reader.next({ timeoutMs: 30_000 }), undefined);
    assert.deepEqual([reader.received, reader.missed], [1, 3]);
  });

  it("never holds a drop-oldest writer back, also if the other machine takes nothing", async () => {
    const options = { ...bytes, slots: 4, whenFull: "drop-oldest" } as const;
    using writer = await hubOfOne.createChannel("stalled", options);
    using reader = await open("stalled");
    other.signalBridge("SIGSTOP");
    try {
      for (let sent = 0; sent < 10; sent += 1) {
        const slot = writer.tryLoan();
        assert.ok(slot !== undefined, `all slots are held after ${sent} messages`);
        slot.commit();
        // So that the bridge takes what it may.
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    } finally {
      other.signalBridge("SIGCONT");
    }
    await until("messages go on", () => {
      writer.tryLoan()?.commit();
      using found = reader.tryNext();
      return found !== undefined;
    });
  });

  it("ends with PEER_GONE if its writer dies, after what was committed", async () => {
    const args = [one.hub.socket, "mortal"];
    await using writer = new Actor(new URL("actors/writes-two.js", import.meta.url), { args });
    await writer.says();
    using reader = await open("mortal");
    writer.goOn();
    for (const sequence of [0, 1]) {
      using found = await reader.next({ timeoutMs: 30_000 });
      assert.equal(found?.sequence, sequence);
    }
    writer.kill("SIGKILL");
    await assert.rejects(reader.next({ timeoutMs: 30_000 }), { code: "PEER_GONE" });
  });

  it("is found when it is announced later, and again after its end", async () => {
    for (const round of [1, 2]) {
      const opening = open("later");
      using writer = await hubOfOne.createChannel("later", { byteLength: 8 });
      using reader = await opening;
      (await writer.loan()).commit({ meta: round });
      using found = await reader.next({ timeoutMs: 30_000 });
      assert.equal(found?.json, round);
      writer.close();
      await until("the channel has ended here", async () => {
        return (await hubOfOther.list({ prefix: "later" })).length === 0;
      });
    }
  });
});
