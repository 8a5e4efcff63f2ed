/**
 * Channels as web streams and Node streams: what they pass on, which side waits, and what they
 * release.
 */
import assert from "node:assert/strict";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, it } from "node:test";
import type { StreamableMessage, StreamedMessage } from "../../../src/channel/web-streams.js";
import { ChannelSite } from "../../support/channel-site.js";
import { checkLeaks } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";

const options = { dtype: "int32", shape: [2, 3] } as const;

describe("a channel as a stream", () => {
  checkLeaks();

  it("copies messages out until the channel ends", async () => {
    using site = new ChannelSite(options);
    const reader = site.reader();
    const written: StreamableMessage[] = [
      { data: Int32Array.of(1, 2, 3, 4, 5, 6), meta: { frame: 1 } },
      { data: [7, 8], meta: Uint8Array.of(9) },
      { data: Int32Array.of(1, 2, 3, 4), shape: [2, 2] },
    ];
    const sending = Readable.from(written).pipe(
      Writable.fromWeb(site.writer.toWeb(), { objectMode: true }),
    );
    const found: StreamedMessage[] = [];
    for await (const message of reader.toWeb()) found.push(message as StreamedMessage);
    assert.deepEqual(
      found.map(({ sequence, missed, meta, shape, data }) => ({
        sequence,
        missed,
        meta,
        shape,
        data: [...data],
      })),
      [
        { sequence: 0, missed: 0, meta: { frame: 1 }, shape: [2, 3], data: [1, 2, 3, 4, 5, 6] },
        { sequence: 1, missed: 0, meta: Uint8Array.of(9), shape: [2], data: [7, 8] },
        { sequence: 2, missed: 0, meta: new Uint8Array(), shape: [2, 2], data: [1, 2, 3, 4] },
      ],
    );
    assert.deepEqual([reader.open, site.writer.open, sending.errored], [false, false, null]);
  });

  it("writes no more than there are slots, and reads nothing unasked", async () => {
    using site = new ChannelSite({ ...options, slots: 2 });
    const readable = site.reader().toWeb().getReader();
    const writer = site.writer.toWeb().getWriter();
    const writes = Array.from({ length: 5 }, (_, value) =>
      writer.write({ data: new Int32Array(6).fill(value) }),
    );
    await soon("all messages with room are written", Promise.all(writes.slice(0, 2)));
    assert.equal(site.writer.committed, 2);
    for (let value = 0; value < 5; value += 1) {
      const { value: message } = await readable.read();
      assert.equal((message as StreamedMessage).data[5], value);
    }
    await Promise.all(writes);
    await readable.cancel();
    await writer.close();
  });

  it("leaves its seat if it is cancelled while it waits", async () => {
    using site = new ChannelSite(options);
    const reader = site.reader();
    const readable = reader.toWeb().getReader();
    const waiting = readable.read();
    await readable.cancel("enough");
    assert.deepEqual(await waiting, { value: undefined, done: true });
    assert.equal(reader.open, false);
  });

  it("waits for the reader's stream no longer once it is cancelled", async () => {
    using site = new ChannelSite(options);
    using gate = site.device.createTimeline();
    using stream = site.device.createStream();
    stream.wait(gate, 1);
    const waits: Promise<void>[] = [];
    const synchronize = stream.synchronize.bind(stream);
    stream.synchronize = (given) => {
      const wait = synchronize(given);
      waits.push(wait);
      return wait;
    };
    const reader = site.reader({ stream });
    const readable = reader.toWeb().getReader();
    site.writer.tryLoan()?.commit();
    const waiting = readable.read();
    await until("it waits for the stream", () => waits.length === 1);
    await readable.cancel();
    assert.deepEqual(await waiting, { value: undefined, done: true });
    await assert.rejects(soon("the wait ends", Promise.all(waits)), { code: "ABORTED" });
    gate.signal(1);
    await synchronize();
  });

  it("gives its slot back and ends the channel if it is aborted while it waits", async () => {
    using site = new ChannelSite({ ...options, slots: 1 });
    using reader = site.reader();
    const writer = site.writer.toWeb().getWriter();
    await writer.write({ data: new Int32Array(6) });
    const waiting = assert.rejects(writer.write({ data: new Int32Array(6) }));
    await soon("it is aborted", writer.abort(new Error("enough")));
    await waiting;
    assert.equal(site.writer.open, false);
    assert.equal((await reader.next())?.sequence, 0);
    assert.equal(await reader.next(), undefined);
  });

  it("fails with the channel's error, on either side", async () => {
    using site = new ChannelSite(options);
    const reader = site.reader();
    const writer = site.writer.toWeb().getWriter();
    await assert.rejects(writer.write({ data: new Int32Array(7) }), RangeError);
    assert.equal(site.writer.open, false);
    using other = new ChannelSite(options);
    const lonely = other.reader();
    other.endWriter();
    await assert.rejects(
      pipeline(Readable.fromWeb(lonely.toWeb(), { objectMode: true }), async (source) => {
        for await (const _ of source) assert.fail("nothing was written");
      }),
      { code: "PEER_GONE" },
    );
    assert.equal(lonely.open, false);
    assert.throws(() => lonely.toWeb(), { code: "CLOSED" });
    reader.close();
  });
});
