/** Readers of a channel and the streams that fill its slots and give them back: nothing comes twice, and nothing is kept for longer than needed. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Stream } from "../../../src/gpu/stream.js";
import { ChannelSite } from "../../support/channel-site.js";
import { checkLeaks, collect } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";

describe("a reader, with streams", () => {
  checkLeaks();

  it("keeps no stream that gave a slot back and was closed", async () => {
    using site = new ChannelSite();
    using reader = site.reader();
    const given: WeakRef<Stream>[] = [];
    const give = async () => {
      using stream = site.device.createStream();
      given.push(new WeakRef(stream));
      site.writer.tryLoan()?.commit();
      (await reader.next())?.release({ stream });
      await stream.synchronize();
    };
    for (let count = 0; count < 4; count += 1) await give();
    await until("they are collected", () => {
      collect();
      return given.slice(0, 2).every((stream) => stream.deref() === undefined);
    });
  });

  it("gives a message once where it is taken while a call waits for its data", async () => {
    using site = new ChannelSite();
    using gate = site.device.createTimeline();
    using filling = site.device.createStream();
    using reader = site.reader();
    filling.wait(gate, 1);
    site.writer.tryLoan()?.commit({ stream: filling });
    const waiting = reader.next();
    await new Promise((resolve) => setImmediate(resolve));
    gate.signal(1);
    // WHY asked: it makes the stream go on, in the same turn of the loop.
    assert.equal(filling.isIdle(), true);
    const taken = reader.tryNext();
    site.writer.tryLoan()?.commit();
    assert.deepEqual([taken?.sequence, (await soon("the next message", waiting))?.sequence], [0, 1]);
    assert.equal(reader.received, 2);
  });
});
