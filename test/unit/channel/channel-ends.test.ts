/**
 * Channels that are closed, abandoned and misused at every point: afterwards nothing is held, and
 * unmapped memory is never read.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Stream } from "../../../src/gpu/order/stream.js";
import { ChannelSite } from "../../support/channel-site.js";
import { checkLeaks } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";

const full = (site: ChannelSite): void => {
  while (site.writer.tryLoan()?.commit() !== undefined);
};
const noStream = {} as Stream;

describe("a writer", () => {
  checkLeaks();

  it("ends its wait for a slot with CLOSED when it is closed, and keeps its counts", async () => {
    using site = new ChannelSite();
    using _reader = site.reader();
    full(site);
    const waiting = assert.rejects(site.writer.loan(), { code: "CLOSED" });
    await new Promise((resolve) => setImmediate(resolve));
    site.writer.close();
    await soon("the wait ends", waiting);
    assert.deepEqual([site.writer.dropped, site.writer.committed, site.writer.slots], [0, 4, 4]);
    assert.throws(() => site.writer.tryLoan(), { code: "CLOSED" });
    site.writer.close();
  });

  it("lends one slot at a time and waits for one at a time", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    {
      using _slot = await site.writer.loan();
      assert.throws(() => site.writer.tryLoan(), { code: "IN_USE" });
      await assert.rejects(site.writer.loan(), { code: "IN_USE" });
    }
    full(site);
    const waiting = site.writer.loan();
    await assert.rejects(site.writer.loan(), { code: "IN_USE" });
    assert.throws(() => site.writer.tryLoan(), { code: "IN_USE" });
    reader.tryNext()?.release();
    (await waiting).commit();
  });

  it("ends a wait at its timeout or abort, and works on", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    full(site);
    await assert.rejects(site.writer.loan({ timeoutMs: 1 }), { code: "TIMEOUT" });
    await assert.rejects(site.writer.loan({ signal: AbortSignal.abort() }), { code: "ABORTED" });
    const abort = new AbortController();
    const waiting = assert.rejects(site.writer.loan({ signal: abort.signal }), { code: "ABORTED" });
    setImmediate(() => abort.abort());
    await soon("it is given up", waiting);
    const next = site.writer.loan();
    reader.tryNext()?.release();
    (await soon("it is woken", next)).commit();
  });

  it("commits a slot once, and can retry a refused commit", async () => {
    using site = new ChannelSite({ metaBytesMax: 8 });
    using reader = site.reader();
    const slot = await site.writer.loan();
    const refused = [
      { options: { meta: new Uint8Array(9) }, error: { code: "MESSAGE_TOO_LARGE" } },
      { options: { meta: "123456789" }, error: { code: "MESSAGE_TOO_LARGE" } },
      { options: { meta: (() => {}) as never }, error: TypeError },
      { options: { byteLength: 65 }, error: RangeError },
      { options: { byteLength: -1 }, error: RangeError },
      { options: { byteLength: 0.5 }, error: RangeError },
      { options: { shape: [65] }, error: RangeError },
      { options: { shape: [8], byteLength: 9 }, error: RangeError },
      { options: { shape: [1, 1, 1, 1, 1, 1, 1, 1, 1] }, error: RangeError },
      { options: { stream: noStream }, error: TypeError },
    ];
    for (const { options, error } of refused) assert.throws(() => slot.commit(options), error);
    assert.throws(() => site.writer.tryLoan(), { code: "IN_USE" });
    assert.equal(slot.commit({ meta: new Uint8Array(8) }), 0);
    assert.throws(() => slot.commit(), { code: "CLOSED" });
    assert.throws(() => slot.array, { code: "CLOSED" });
    slot.close();
    assert.equal(reader.tryNext()?.meta.byteLength, 8);
    assert.equal(reader.tryNext(), undefined);
    assert.throws(() => site.writer.tryLoan({ stream: noStream }), TypeError);
    await assert.rejects(site.writer.loan({ stream: noStream }), TypeError);
    site.writer.tryLoan()?.close();
  });

  it("takes back the lent slot when it is closed", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    const slot = await site.writer.loan();
    const { array } = slot;
    site.writer.close();
    assert.throws(() => slot.commit(), { code: "CLOSED" });
    await assert.rejects(array.read(), { code: "CLOSED" });
    assert.equal(await reader.next(), undefined);
  });

  it("throws CHANNEL_FULL or drops the message if whenFull says so", async () => {
    using refusing = new ChannelSite({ whenFull: "error" });
    using _slow = refusing.reader();
    full(refusing);
    await assert.rejects(refusing.writer.loan(), { code: "CHANNEL_FULL" });
    using dropping = new ChannelSite({ whenFull: "drop-newest" });
    using reader = dropping.reader();
    for (let count = 0; count < 4; count += 1) (await dropping.writer.loan()).commit();
    assert.equal((await dropping.writer.loan()).commit(), undefined);
    assert.equal(dropping.writer.tryLoan(), undefined);
    (await dropping.writer.loan()).close();
    assert.equal(dropping.writer.dropped, 2);
    reader.tryNext()?.release();
    assert.equal((await dropping.writer.loan()).commit(), 4);
  });

  it("counts a slot that a reader's stream still uses as taken if no stream is given", async () => {
    for (const whenFull of ["error", "drop-newest"] as const) {
      using site = new ChannelSite({ whenFull });
      using gate = site.device.createTimeline();
      using stream = site.device.createStream();
      using reader = site.reader({ stream });
      full(site);
      const { dropped } = site.writer;
      stream.wait(gate, 1);
      (await reader.next())?.release();
      assert.equal(site.writer.tryLoan(), undefined);
      assert.equal(site.writer.dropped, dropped + (whenFull === "error" ? 0 : 1));
      using filling = site.device.createStream();
      assert.equal(site.writer.tryLoan({ stream: filling })?.commit(), 4);
      gate.signal(1);
      await filling.synchronize();
    }
  });
});

describe("a reader", () => {
  checkLeaks();

  it("ends its wait with CLOSED when it is closed, and closes its slots", async () => {
    using site = new ChannelSite();
    const [reader, other] = [site.reader({ spinMs: 0 }), site.reader()];
    site.writer.tryLoan()?.commit({ meta: { a: 1 } });
    const slot = await reader.next();
    assert.ok(slot);
    const { array, bytes } = slot;
    const waiting = assert.rejects(reader.next(), { code: "CLOSED" });
    await new Promise((resolve) => setImmediate(resolve));
    reader.close();
    await soon("the wait ends", waiting);
    for (const use of [() => slot.meta, () => slot.json, () => slot.array, () => slot.bytes]) {
      assert.throws(use, { code: "CLOSED" });
    }
    assert.deepEqual([bytes.byteLength, slot.open], [64, false]);
    await assert.rejects(array.read(), { code: "CLOSED" });
    slot.release();
    reader.close();
    assert.deepEqual(
      [reader.received, reader.missed, reader.open, slot.sequence],
      [1, 0, false, 0],
    );
    await assert.rejects(reader.next(), { code: "CLOSED" });
    assert.throws(() => reader.tryNext(), { code: "CLOSED" });
    other.close();
  });

  it("wakes a sleeping writer when it is closed, without a hub", async () => {
    using site = new ChannelSite();
    const reader = site.reader();
    full(site);
    const waiting = site.writer.loan();
    await new Promise((resolve) => setImmediate(resolve));
    reader.close();
    (await soon("the writer is woken", waiting)).commit();
  });

  it("waits in one call at a time, until its timeout or abort", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    const waiting = reader.next();
    await assert.rejects(reader.next(), { code: "IN_USE" });
    site.writer.tryLoan()?.commit();
    assert.equal((await waiting)?.sequence, 0);
    await assert.rejects(reader.next({ timeoutMs: 1 }), { code: "TIMEOUT" });
    await assert.rejects(reader.next({ signal: AbortSignal.abort() }), { code: "ABORTED" });
    const abort = new AbortController();
    const given = assert.rejects(reader.next({ signal: abort.signal }), { code: "ABORTED" });
    setImmediate(() => abort.abort());
    await soon("it is given up", given);
    const next = reader.next();
    site.writer.tryLoan()?.commit();
    assert.equal((await soon("it is woken", next))?.sequence, 1);
  });

  it("gets the end even with a timeout of 0", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    site.writer.tryLoan()?.commit();
    await assert.doesNotReject(reader.next({ timeoutMs: 0 }));
    await assert.rejects(reader.next({ timeoutMs: 0 }), { code: "TIMEOUT" });
    site.writer.close();
    assert.equal(await reader.next({ timeoutMs: 0 }), undefined);
  });

  it("is refused with invalid options, and leaves its seat", async () => {
    using site = new ChannelSite();
    const refused = [
      { from: "newest" as "latest" },
      { spinMs: -1 },
      { spinMs: Number.NaN },
      { stream: noStream },
    ];
    for (const options of refused) assert.throws(() => site.reader(options), /must be/);
    using _one = site.reader();
    using _other = site.reader();
  });

  it("releases a slot once, in the order of its stream", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    site.writer.tryLoan()?.commit();
    const slot = reader.tryNext();
    assert.throws(() => slot?.release({ stream: noStream }), TypeError);
    assert.equal(slot?.open, true);
    slot.release();
    slot.release();
    assert.throws(() => slot.bytes, { code: "CLOSED" });
    assert.throws(() => slot.json, { code: "CLOSED" });
    assert.throws(() => slot.meta, { code: "CLOSED" });
  });

  it("releases each slot of a loop that ends by break or by an error", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    full(site);
    for await (const slot of reader) if (slot.sequence === 1) break;
    const failing = async () => {
      for await (const slot of reader) throw new Error(`at ${slot.sequence}`);
    };
    await assert.rejects(failing(), /at 2/);
    for (let count = 0; count < 3; count += 1) site.writer.tryLoan()?.commit();
    assert.equal(site.writer.tryLoan(), undefined);
  });

  for (const [from, expected] of [
    ["next", 6],
    ["latest", 5],
    ["oldest", 3],
  ] as const) {
    it(`counts what it missed before its first message, from ${from} on`, async () => {
      using site = new ChannelSite({ slots: 4 });
      const commit = () => site.writer.tryLoan()?.commit();
      for (let count = 0; count < 6; count += 1) commit();
      // The writer reuses this slot, and the oldest message is gone.
      using loan = site.writer.tryLoan();
      using reader = site.reader({ from, lossy: true });
      loan?.commit();
      for (let count = 0; count < 20; count += 1) commit();
      using slot = await reader.next();
      assert.deepEqual(
        [slot?.sequence, slot?.missed, reader.missed],
        [23, 23 - expected, 23 - expected],
      );
    });
  }

  it("throws LIMIT_EXCEEDED beyond eight held slots if it is lossy", async () => {
    using site = new ChannelSite({ slots: 16, whenFull: "drop-oldest" });
    using reader = site.reader();
    for (let count = 0; count < 16; count += 1) site.writer.tryLoan()?.commit();
    const slots = Array.from({ length: 8 }, () => reader.tryNext());
    assert.throws(() => reader.tryNext(), { code: "LIMIT_EXCEEDED" });
    await assert.rejects(reader.next(), { code: "LIMIT_EXCEEDED" });
    slots[3]?.release();
    assert.equal(reader.tryNext()?.sequence, 8);
  });

  it("keeps its seat until its stream has given its slots back", async () => {
    using site = new ChannelSite();
    using gate = site.device.createTimeline();
    using stream = site.device.createStream();
    const reader = site.reader({ stream });
    site.writer.tryLoan()?.commit();
    stream.wait(gate, 1);
    (await reader.next())?.release();
    reader.close();
    full(site);
    assert.equal(site.writer.tryLoan(), undefined);
    gate.signal(1);
    // Until its seat is free the writer has room for only as many slots as before.
    await until("the writer has room for many", () => {
      site.writer.tryLoan()?.commit();
      return site.writer.committed > 20;
    });
    await stream.synchronize();
  });
});
