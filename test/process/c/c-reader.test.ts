/** The client in C reads channels that Node writes. */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { ChannelWriter, Hub } from "../../../src/index.js";
import { TestHub } from "../../support/test-hub.js";
import { withCHub } from "./c-hub.js";
import { type CPrograms, skip } from "./c-programs.js";

const LIMIT = { timeoutMs: 60_000 };
const WRITER = new URL("actors/writes-channel.js", import.meta.url);

interface Counted {
  readonly end: string;
  readonly wrong: number;
  readonly inOrder: boolean;
  readonly received: number;
  readonly missed: number;
  readonly first: number;
  readonly last: number;
}

interface Described {
  readonly sequence: number;
  readonly missed: number;
}

describe("a reader of a channel in C", { skip }, () => {
  let programs: CPrograms;
  let testHub: TestHub;
  let hub: Hub;
  const peer = withCHub((it) => {
    ({ programs, testHub, hub } = it);
  });

  async function write(writer: ChannelWriter, sequence: number): Promise<void> {
    using slot = await writer.loan(LIMIT);
    slot.bytes.fill(sequence % 251);
    slot.commit({ meta: sequence });
  }

  it("has each kind of shape, size and meta, up to the end", async () => {
    using writer = await hub.createChannel("kinds", { dtype: "int16", shape: [2, 3], slots: 8 });
    await using reader = peer("describes", "kinds");
    assert.equal(await reader.said(), "reading");
    const bytes = Uint8Array.from({ length: 12 }, (_, index) => index + 1);
    const json = { größe: [1, null] };
    const messages = [
      { options: {}, shape: [], meta: "", isJson: false, byteLength: 12 },
      { options: { meta: json }, shape: [], meta: json, isJson: true, byteLength: 12 },
      {
        options: { meta: Uint8Array.of(0, 255), shape: [3, 1] },
        shape: [3, 1],
        meta: "00ff",
        isJson: false,
        byteLength: 6,
      },
      { options: { byteLength: 4 }, shape: [], meta: "", isJson: false, byteLength: 4 },
      { options: { byteLength: 0 }, shape: [], meta: "", isJson: false, byteLength: 0 },
    ];
    for (const [sequence, { options, shape, meta, isJson, byteLength }] of messages.entries()) {
      using slot = await writer.loan(LIMIT);
      slot.bytes.set(bytes);
      slot.commit(options);
      const hex = Buffer.from(bytes.subarray(0, byteLength)).toString("hex");
      const metaHex =
        typeof meta === "string" ? meta : Buffer.from(JSON.stringify(meta)).toString("hex");
      assert.deepEqual(await reader.said(), {
        sequence,
        missed: 0,
        shape,
        isJson,
        meta: metaHex,
        hex,
      });
    }
    writer.close();
    assert.equal(await reader.said(), "closed");
    await reader.finish();
  });

  it("loses nothing if each side waits for the other", async () => {
    using writer = await hub.createChannel("many", { byteLength: 1000, slots: 3, readersMax: 2 });
    await using first = peer("counts", "many");
    await using second = peer("counts", "many");
    for (const reader of [first, second]) assert.equal(await reader.said(), "reading");
    const count = 20_000;
    for (let sequence = 0; sequence < count; sequence += 1) await write(writer, sequence);
    writer.close();
    const counted = { received: count, missed: 0, first: 0, last: count - 1 };
    for (const reader of [first, second]) {
      assert.deepEqual(await reader.said(), { end: "closed", wrong: 0, inOrder: true, ...counted });
      await reader.finish();
    }
  });

  for (const whenFull of ["wait", "drop-oldest"] as const) {
    it(`misses only what was overwritten (${whenFull})`, async () => {
      const name = `over-${whenFull}`;
      using writer = await hub.createChannel(name, { byteLength: 1000, slots: 4, whenFull });
      await using reader = peer("counts", name, "lossy");
      assert.equal(await reader.said(), "reading");
      using observer = await hub.observeChannel(name);
      let count = 0;
      // In bursts, until the reader has missed some.
      while (observer.statistics().readers[0]?.missed === 0) {
        for (let burst = 0; burst < 100; burst += 1, count += 1) await write(writer, count);
        await setImmediate();
      }
      writer.close();
      const { end, wrong, inOrder, received, missed, last } = (await reader.said()) as Counted;
      const wanted = { end: "closed", wrong: 0, inOrder: true, last: count - 1 };
      assert.deepEqual({ end, wrong, inOrder, last }, wanted);
      assert.ok(missed > 0);
      assert.equal(received + missed, count, "all, from the first on");
      await reader.finish();
    });
  }

  it("counts the messages that a lossy reader missed before its first one", async () => {
    for (const [from, expected] of Object.entries({ next: 6, latest: 5, oldest: 3 })) {
      const name = `first-${from}`;
      using writer = await hub.createChannel(name, { byteLength: 1000, slots: 4 });
      for (let sequence = 0; sequence < 6; sequence += 1) await write(writer, sequence);
      // The writer reuses this slot, so the oldest message is gone.
      using loan = writer.tryLoan();
      await using reader = peer("late", name, from);
      assert.equal(await reader.said(), "reading");
      loan?.commit();
      for (let sequence = 7; sequence < 27; sequence += 1) await write(writer, sequence);
      reader.tell();
      assert.deepEqual(await reader.said(), [23, 23 - expected]);
      await reader.finish();
    }
  });

  it("counts at the end what was overwritten after the last message", async () => {
    using writer = await hub.createChannel("rest", { byteLength: 8, slots: 1 });
    await using reader = peer("rest", "rest");
    await write(writer, 0);
    assert.equal(await reader.said(), "taken");
    for (let sequence = 1; sequence < 4; sequence += 1) await write(writer, sequence);
    // With one slot, this takes away the last message.
    await writer.loan();
    writer.close();
    reader.tell();
    assert.deepEqual(await reader.said(), [0, 3]);
    await reader.finish();
  });

  it("keeps a held message while the writer wraps around", async () => {
    using writer = await hub.createChannel("held", { byteLength: 64, slots: 4 });
    await write(writer, 0);
    await using reader = peer("holds", "held", "lossy");
    const held = (await reader.said()) as Described;
    assert.equal(held.sequence, 0);
    for (let sequence = 1; sequence < 50; sequence += 1) await write(writer, sequence);
    reader.tell();
    assert.deepEqual(await reader.said(), held);
    const next = (await reader.said()) as Described;
    assert.ok(next.sequence > 45);
    assert.equal(next.missed, next.sequence - 1);
    await reader.finish();
  });

  it("goes past positions that hold no message", async () => {
    using writer = await hub.createChannel("passed-over", { byteLength: 1000, slots: 4 });
    using other = await hub.openChannel("passed-over", { lossy: true });
    await write(writer, 0);
    using held = other.tryNext();
    assert.equal(held?.sequence, 0);
    await using reader = peer("counts", "passed-over");
    assert.equal(await reader.said(), "reading");
    for (let sequence = 1; sequence < 100; sequence += 1) await write(writer, sequence);
    writer.close();
    const counted = { received: 100, missed: 0, first: 0, last: 99 };
    assert.deepEqual(await reader.said(), { end: "closed", wrong: 0, inOrder: true, ...counted });
    await reader.finish();
  });

  it("waits for data that a stream has not written yet", async () => {
    const shape = [1 << 20];
    using writer = await hub.createChannel("streamed", { dtype: "uint8", shape, slots: 2 });
    using stream = hub.device().createStream();
    await using reader = peer("counts", "streamed");
    assert.equal(await reader.said(), "reading");
    for (let sequence = 0; sequence < 20; sequence += 1) {
      using slot = await writer.loan({ stream, ...LIMIT });
      await slot.array.fill(sequence, { stream });
      slot.commit({ meta: sequence });
    }
    await stream.synchronize(LIMIT);
    writer.close();
    const { wrong, received } = (await reader.said()) as Counted;
    assert.deepEqual({ wrong, received }, { wrong: 0, received: 20 });
    await reader.finish();
  });

  it("holds no slot of a message without data", async () => {
    using writer = await hub.createChannel("empty", { byteLength: 8, slots: 2 });
    await using reader = peer("keeps", "empty", "6");
    assert.equal(await reader.said(), "reading");
    for (let sequence = 0; sequence < 6; sequence += 1) {
      using slot = await writer.loan(LIMIT);
      slot.commit({ meta: sequence, byteLength: 0 });
      const { meta, hex } = (await reader.said()) as {
        readonly meta: string;
        readonly hex: string;
      };
      assert.deepEqual([Buffer.from(meta, "hex").toString(), hex], [String(sequence), ""]);
    }
    const [code, message] = (await reader.said()) as [string, string];
    assert.equal(code, "TIMEOUT");
    assert.match(Buffer.from(message, "hex").toString(), /no message came$/);
    await reader.finish();
  });

  it("is told that its process holds all slots", async () => {
    using writer = await hub.createChannel("kept", { byteLength: 8, slots: 2 });
    await using reader = peer("keeps", "kept", "2");
    assert.equal(await reader.said(), "reading");
    for (let sequence = 0; sequence < 2; sequence += 1) await write(writer, sequence);
    for (let sequence = 0; sequence < 2; sequence += 1) await reader.said();
    const [code, message] = (await reader.said()) as [string, string];
    assert.equal(code, "TIMEOUT");
    assert.match(
      Buffer.from(message, "hex").toString(),
      /this process itself \(process \d+\) holds 2 of its messages that are not released$/,
    );
    await reader.finish();
  });

  it("holds 8 messages at most if it is lossy, and gives them back in any order", async () => {
    using writer = await hub.createChannel("takes", { byteLength: 8, slots: 16 });
    for (let sequence = 0; sequence < 9; sequence += 1) await write(writer, sequence);
    await using reader = peer("takes", "takes", "9", "lossy");
    assert.equal(await reader.said(), "IN_USE");
    reader.tell();
    assert.equal(await reader.said(), "released");
    await reader.finish();
  });

  it("reads to the last message of a writer that is killed", async () => {
    const writer = fork(WRITER, [testHub.socket, "killed"]);
    await once(writer, "message");
    await using reader = peer("counts", "killed");
    assert.equal(await reader.said(), "reading");
    writer.kill("SIGKILL");
    const counted = { received: 10, missed: 0, first: 0, last: 9 };
    assert.deepEqual(await reader.said(), {
      end: "PEER_GONE",
      wrong: 0,
      inOrder: true,
      ...counted,
    });
    await reader.finish();
  });

  it("frees its seat and slots when it is killed", async () => {
    using writer = await hub.createChannel("seat", { byteLength: 8, slots: 2, readersMax: 1 });
    await write(writer, 0);
    {
      await using reader = peer("holds", "seat");
      assert.equal(((await reader.said()) as Described).sequence, 0);
      await assert.rejects(hub.openChannel("seat"), { code: "READERS_FULL" });
      await write(writer, 1);
      assert.equal(writer.tryLoan(), undefined);
    }
    await write(writer, 2); // waits until the hub has seen its end
  });

  it("ends a wait with the reason: a time limit, or a hub that is gone", async () => {
    await using own = await TestHub.start();
    await using client = await own.connect({ reconnect: false });
    using _writer = await client.createChannel("silent", { byteLength: 8 });
    await using impatient = programs.peer(own.socket, "waits", "silent", "20");
    await using patient = programs.peer(own.socket, "waits", "silent", "60000");
    for (const reader of [impatient, patient]) assert.equal(await reader.said(), "reading");
    assert.equal(await impatient.said(), "TIMEOUT");
    await own.killWithKeeper();
    assert.equal(await patient.said(), "HUB_GONE");
    await impatient.finish();
    await patient.finish();
  });
});
