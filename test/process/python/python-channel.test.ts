/**
 * The example channel reader in Python, written from docs/protocol.md, reads a channel that Node
 * writes, through a real hub.
 */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { type ChannelWriter, connect, type Hub } from "../../../src/index.js";
import { killHub, TestFolder } from "../../support/test-folder.js";
import { HubProcess, PythonPeer, skip } from "./python-peer.js";

const LIMIT = { timeoutMs: 60_000 };

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

describe("Python reads a channel", { skip }, () => {
  let folder: string;
  let socket: string;
  let hubProcess: HubProcess;
  let hub: Hub;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "cuda-ipc-python-channel-"));
    socket = join(folder, "hub.sock");
    hubProcess = await HubProcess.start(socket);
    hub = await connect({ socket, device: "host" });
  });

  after(async () => {
    try {
      await hub?.close();
    } finally {
      await hubProcess?.end();
      await rm(folder, { recursive: true, force: true });
    }
  });

  const python = (command: string, ...names: string[]) =>
    new PythonPeer("channel_peer.py", socket, command, ...names);

  async function write(writer: ChannelWriter, sequence: number): Promise<void> {
    using slot = await writer.loan(LIMIT);
    slot.bytes.fill(sequence % 251);
    slot.commit({ meta: sequence });
  }

  it("with all kinds of shapes, sizes and meta, up to its end", async () => {
    using writer = await hub.createChannel("kinds", { dtype: "int16", shape: [2, 3], slots: 8 });
    const bytes = Uint8Array.from({ length: 12 }, (_, index) => index + 1);
    const messages = [
      { options: {}, shape: [2, 3], meta: "", byteLength: 12 },
      {
        options: { meta: { größe: [1, null] } },
        shape: [2, 3],
        meta: { größe: [1, null] },
        byteLength: 12,
      },
      {
        options: { meta: Uint8Array.of(0, 255), shape: [3, 1] },
        shape: [3, 1],
        meta: "00ff",
        byteLength: 6,
      },
      { options: { byteLength: 4 }, shape: [2], meta: "", byteLength: 4 },
      { options: { byteLength: 0 }, shape: [0], meta: "", byteLength: 0 },
    ];
    for (const { options } of messages) {
      using slot = await writer.loan();
      slot.bytes.set(bytes);
      slot.commit(options);
    }
    await using reader = python("describes", "kinds");
    assert.equal(await reader.said(), "reading");
    for (const [sequence, { shape, meta, byteLength }] of messages.entries()) {
      const said = {
        sequence,
        missed: 0,
        shape,
        meta,
        sha256: sha256(bytes.subarray(0, byteLength)),
      };
      assert.deepEqual(await reader.said(), said);
    }
    writer.close();
    assert.equal(await reader.said(), "closed");
    await reader.finish();
  });

  it("in order and without loss, if each side waits for the other", async () => {
    using writer = await hub.createChannel("many", { byteLength: 1000, slots: 3, readersMax: 2 });
    await using first = python("counts", "many");
    await using second = python("counts", "many");
    for (const reader of [first, second]) assert.equal(await reader.said(), "reading");
    const count = 3000;
    for (let sequence = 0; sequence < count; sequence += 1) await write(writer, sequence);
    writer.close();
    const counts = { received: count, missed: 0, counted: 0, first: [0], last: [count - 1] };
    for (const reader of [first, second]) {
      assert.deepEqual(await reader.said(), { end: "closed", wrong: [], inOrder: true, ...counts });
      await reader.finish();
    }
  });

  for (const whenFull of ["wait", "drop-oldest"] as const) {
    it(`and misses only what was overwritten (${whenFull})`, async () => {
      const name = `over-${whenFull}`;
      using writer = await hub.createChannel(name, { byteLength: 1000, slots: 4, whenFull });
      await using reader = python("counts", name, "overtaken");
      assert.equal(await reader.said(), "reading");
      using observer = await hub.observeChannel(name);
      let count = 0;
      // In bursts, until the reader has missed some.
      while (observer.statistics().readers[0]?.missed === 0) {
        for (let burst = 0; burst < 100; burst += 1, count += 1) await write(writer, count);
        await setImmediate();
      }
      writer.close();
      const said = (await reader.said()) as Record<string, unknown>;
      const { end, wrong, inOrder, received, missed, counted, last } = said;
      assert.deepEqual(
        { end, wrong, inOrder, last },
        { end: "closed", wrong: [], inOrder: true, last: [count - 1] },
      );
      assert.equal(missed, counted);
      assert.ok(Number(missed) > 0, JSON.stringify(said));
      assert.equal(Number(received) + Number(missed), count, "all, from the first on");
      await reader.finish();
    });
  }

  it("and counts the messages that it missed before its first one", async () => {
    for (const [from, expected] of Object.entries({ next: 6, latest: 5, oldest: 3 })) {
      const name = `first-${from}`;
      using writer = await hub.createChannel(name, { byteLength: 1000, slots: 4 });
      for (let sequence = 0; sequence < 6; sequence += 1) await write(writer, sequence);
      // The writer reuses this slot, so the oldest message is gone.
      using loan = writer.tryLoan();
      await using reader = python("late", name, from);
      assert.equal(await reader.said(), "reading");
      loan?.commit();
      for (let sequence = 7; sequence < 27; sequence += 1) await write(writer, sequence);
      reader.tell();
      assert.deepEqual(await reader.said(), [23, 23 - expected, 23 - expected]);
      await reader.finish();
    }
  });

  it("and a held message stays unchanged while the writer wraps around", async () => {
    using writer = await hub.createChannel("held", { byteLength: 64, slots: 4 });
    const messageOf = (sequence: number, missed: number) => {
      const data = new Uint8Array(64).fill(sequence);
      return { sequence, missed, shape: [64], meta: sequence, sha256: sha256(data) };
    };
    await write(writer, 0);
    await using reader = python("holds", "held", "overtaken");
    assert.deepEqual(await reader.said(), messageOf(0, 0));
    for (let sequence = 1; sequence < 50; sequence += 1) await write(writer, sequence);
    reader.tell();
    assert.deepEqual(await reader.said(), messageOf(0, 0));
    const next = (await reader.said()) as { sequence: number };
    assert.deepEqual(next, messageOf(next.sequence, next.sequence - 1));
    assert.ok(next.sequence > 45);
    await reader.finish();
  });

  it("and skips the slots that another reader holds", async () => {
    using writer = await hub.createChannel("passed-over", { byteLength: 1000, slots: 4 });
    using other = await hub.openChannel("passed-over", { lossy: true });
    await write(writer, 0);
    using held = other.tryNext();
    assert.equal(held?.sequence, 0);
    await using reader = python("counts", "passed-over");
    assert.equal(await reader.said(), "reading");
    for (let sequence = 1; sequence < 100; sequence += 1) await write(writer, sequence);
    writer.close();
    const counts = { received: 100, missed: 0, counted: 0, first: [0], last: [99] };
    assert.deepEqual(await reader.said(), { end: "closed", wrong: [], inOrder: true, ...counts });
    assert.deepEqual(held.bytes, new Uint8Array(1000));
    await reader.finish();
  });

  it("from the oldest, the latest or the next message", async () => {
    using writer = await hub.createChannel("starts", { byteLength: 8, slots: 4 });
    for (let sequence = 0; sequence < 10; sequence += 1) await write(writer, sequence);
    await using reader = python("begins", "starts");
    // The writer may have reserved positions that it has not written yet. They replace the oldest
    // messages.
    assert.ok([6, 7].includes((await reader.said()) as number));
    assert.equal(await reader.said(), 9);
    assert.equal(await reader.said(), null);
    await reader.finish();
  });

  it("whose data a stream has not written yet", async () => {
    using writer = await hub.createChannel("streamed", {
      dtype: "uint8",
      shape: [1 << 20],
      slots: 2,
    });
    using stream = hub.device().createStream();
    await using reader = python("counts", "streamed");
    assert.equal(await reader.said(), "reading");
    for (let sequence = 0; sequence < 20; sequence += 1) {
      using slot = await writer.loan({ stream, ...LIMIT });
      await slot.array.fill(sequence, { stream });
      slot.commit({ meta: sequence });
    }
    await stream.synchronize(LIMIT);
    writer.close();
    const { wrong, received } = (await reader.said()) as { wrong: number[]; received: number };
    assert.deepEqual({ wrong, received }, { wrong: [], received: 20 });
    await reader.finish();
  });

  it("to the last message of a writer that is killed", async () => {
    const actor = new URL("./actors/writes-channel.js", import.meta.url);
    const writer = fork(actor, [socket, "killed"]);
    await once(writer, "message");
    await using reader = python("counts", "killed");
    assert.equal(await reader.said(), "reading");
    writer.kill("SIGKILL");
    const counts = { received: 10, missed: 0, counted: 0, first: [0], last: [9] };
    assert.deepEqual(await reader.said(), { end: "gone", wrong: [], inOrder: true, ...counts });
    await reader.finish();
  });

  it("and frees its seat and slots when it is killed", async () => {
    using writer = await hub.createChannel("place", { byteLength: 8, slots: 2, readersMax: 1 });
    await write(writer, 0);
    {
      await using reader = python("holds", "place");
      assert.equal(((await reader.said()) as { sequence: number }).sequence, 0);
      await assert.rejects(hub.openChannel("place"), { code: "READERS_FULL" });
      await write(writer, 1);
      assert.equal(writer.tryLoan(), undefined);
    }
    await write(writer, 2); // waits until the hub has seen its end
    using next = await hub.openChannel("place", { from: "latest" });
    assert.equal(next.tryNext()?.sequence, 2);
  });

  it("and is expelled if it writes invalid words, without effect on others", async () => {
    using writer = await hub.createChannel("nonsense", { byteLength: 8, slots: 2 });
    using other = await hub.openChannel("nonsense");
    await using liar = python("lies", "nonsense");
    assert.equal(await liar.said(), "lied");
    for (let sequence = 0; sequence < 6; sequence += 1) {
      await write(writer, sequence);
      using slot = other.tryNext();
      assert.equal(slot?.sequence, sequence);
    }
    assert.equal(writer.readers, 1);
    liar.tell();
    assert.match(String(await liar.said()), /makes no sense|make no sense/);
    await liar.finish();
  });

  it("and stops waiting if the hub hangs up", async () => {
    const own = new TestFolder();
    const ownProcess = await HubProcess.start(own.socket);
    try {
      await using ownHub = await connect({ socket: own.socket, device: "host", start: false });
      using _writer = await ownHub.createChannel("silent", { byteLength: 8 });
      await using reader = new PythonPeer("channel_peer.py", own.socket, "waits", "silent");
      assert.equal(await reader.said(), "reading");
      await killHub(own.path);
      assert.equal(await reader.said(), "ConnectionError");
    } finally {
      await ownProcess.end();
      own[Symbol.dispose]();
    }
  });

  it("and refuses objects that are not channels", async () => {
    using array = await hub.create("array", { dtype: "int8", shape: [4] });
    await array.publish();
    await using reader = python("refuses", "array", "nothing");
    assert.match(String(await reader.said()), /^WRONG_KIND/);
    assert.match(String(await reader.said()), /^NOT_FOUND/);
    await reader.finish();
  });
});
