import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ChannelSite } from "../../support/channel-site.js";
import { checkLeaks } from "../../support/leak-check.js";

describe("a channel on the host device", () => {
  checkLeaks();

  it("passes messages on in order, with sequence, time and meta", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    for (let index = 0; index < 10; index += 1) {
      using loan = await site.writer.loan();
      loan.bytes.fill(index);
      assert.equal(loan.commit({ meta: { index } }), index);
      using slot = await reader.next();
      assert.ok(slot);
      assert.equal(slot.sequence, index);
      assert.deepEqual([...slot.bytes], new Array(64).fill(index));
      assert.deepEqual(slot.json, { index });
      assert.ok(Math.abs(slot.timestampMs - Date.now()) < 60_000);
    }
    assert.equal(reader.received, 10);
    assert.equal(reader.missed, 0);
  });

  it("waits for a slow reader", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    for (let index = 0; index < 4; index += 1) site.writer.tryLoan()?.commit();
    assert.equal(site.writer.tryLoan(), undefined);
    const waiting = site.writer.loan();
    using first = await reader.next();
    first?.release();
    using loan = await waiting;
    loan.commit();
  });

  it("wakes a sleeping reader", async () => {
    using site = new ChannelSite();
    using reader = site.reader({ spinMs: 0 });
    const waiting = reader.next();
    await new Promise((resolve) => setTimeout(resolve, 20));
    site.writer.tryLoan()?.commit();
    using slot = await waiting;
    assert.equal(slot?.sequence, 0);
  });

  it("ends for readers that have read everything", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    site.writer.tryLoan()?.commit();
    site.writer.close();
    const sequences: number[] = [];
    for await (using slot of reader) sequences.push(slot.sequence);
    assert.deepEqual(sequences, [0]);
  });

  it("gives the event loop its turn even if loans never wait", async () => {
    using site = new ChannelSite({ whenFull: "drop-oldest" });
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    const endMs = performance.now() + 10_000;
    while (turns === 0 && performance.now() < endMs) {
      using loan = await site.writer.loan();
      loan.commit();
    }
    clearInterval(timer);
    assert.ok(turns > 0);
  });
});
