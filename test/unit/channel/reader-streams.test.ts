/**
 * Readers and the streams that fill their slots and give them back: no message comes twice, and
 * nothing is kept longer than needed.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import type { Stream } from "../../../src/gpu/order/stream.js";
import { CLAIMS } from "../../../src/ring/channel-layout.js";
import { ChannelSite } from "../../support/channel-site.js";
import { checkLeaks, collect } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";

const full = (site: ChannelSite): void => {
  while (site.writer.tryLoan()?.commit() !== undefined);
};

/** A stream that refuses this many signals. */
function refusing(site: ChannelSite, times: number): Stream {
  const stream = site.device.createStream();
  const signal = stream.signal.bind(stream);
  let left = times;
  stream.signal = (timeline, value) => {
    left -= 1;
    if (left >= 0) throw new CudaIpcError("DEVICE_LOST", "Cannot signal: the device failed");
    signal(timeline, value);
  };
  return stream;
}

describe("a reader with streams", () => {
  checkLeaks();

  it("drops a closed stream that has given its slots back", async () => {
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

  it("returns a message once if tryNext() takes it while next() waits for its data", async () => {
    using site = new ChannelSite();
    using gate = site.device.createTimeline();
    using filling = site.device.createStream();
    using reader = site.reader();
    filling.wait(gate, 1);
    site.writer.tryLoan()?.commit({ stream: filling });
    const waiting = reader.next();
    await new Promise((resolve) => setImmediate(resolve));
    gate.signal(1);
    // The query makes the stream go on, in the same turn of the loop.
    assert.equal(filling.isIdle(), true);
    const taken = reader.tryNext();
    site.writer.tryLoan()?.commit();
    assert.deepEqual(
      [taken?.sequence, (await soon("the next message", waiting))?.sequence],
      [0, 1],
    );
    assert.equal(reader.received, 2);
  });
});

describe("a lossy reader whose streams hold as many slots as it may have", () => {
  checkLeaks();

  it("gets the message whose data has come, and the end of the channel, at once", async () => {
    using site = new ChannelSite({ slots: 16 });
    using busy = site.device.createTimeline();
    using reading = site.device.createStream();
    using data = site.device.createTimeline();
    using filling = site.device.createStream();
    using reader = site.reader({ lossy: true });
    reading.wait(busy, 1);
    for (let count = 0; count < CLAIMS - 1; count += 1) {
      site.writer.tryLoan()?.commit();
      reader.tryNext()?.release({ stream: reading });
    }
    filling.wait(data, 1);
    site.writer.tryLoan()?.commit({ stream: filling });
    assert.equal(reader.tryNext(), undefined, "its data has not come");
    const waiting = reader.next();
    data.signal(1);
    await filling.synchronize();
    assert.equal((await soon("the message", waiting))?.sequence, CLAIMS - 1);
    site.writer.close();
    assert.equal(await soon("the end", reader.next()), undefined);
    busy.signal(1);
    await reading.synchronize();
  });

  it("waits for them if there is a message, and says so", async () => {
    using site = new ChannelSite({ slots: 16 });
    using busy = site.device.createTimeline();
    using stream = site.device.createStream();
    using reader = site.reader({ lossy: true });
    stream.wait(busy, 1);
    for (let count = 0; count < CLAIMS; count += 1) {
      site.writer.tryLoan()?.commit();
      reader.tryNext()?.release({ stream });
    }
    const waiting = reader.next();
    site.writer.tryLoan()?.commit();
    site.writer.close();
    await new Promise((resolve) => setImmediate(resolve));
    busy.signal(1);
    assert.equal((await soon("the message", waiting))?.sequence, CLAIMS);
    assert.equal(await reader.next(), undefined);
  });
});

describe("a reader whose stream refuses to give a slot back", () => {
  checkLeaks();
  const lost = { code: "DEVICE_LOST" };
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  it("throws at each call, also from a waiting next(), and leaves its seat when its streams are done", async () => {
    using site = new ChannelSite();
    using gate = site.device.createTimeline();
    using stream = refusing(site, Number.POSITIVE_INFINITY);
    using other = site.device.createStream();
    const reader = site.reader({ stream, spinMs: 0 });
    full(site);
    const slots = [
      await reader.next(),
      await reader.next(),
      await reader.next(),
      await reader.next(),
    ];
    const waiting = reader.next();
    await turn();
    slots[1]?.release({ stream: other });
    for (const busy of [stream, other]) busy.wait(gate, 1);
    assert.throws(() => slots[0]?.release(), lost);
    await assert.rejects(soon("the wait ends", waiting), {
      ...lost,
      message: /cannot release a slot.*Close the reader/,
    });
    assert.throws(() => slots[2]?.release({ stream: other }), lost);
    await assert.rejects(reader.next(), lost);
    assert.throws(() => reader.tryNext(), lost);
    reader.close();
    assert.equal(site.writer.tryLoan(), undefined);
    assert.equal(stream.isIdle(), false);
    gate.signal(1);
    await until("its seat is free", () => {
      site.writer.tryLoan()?.commit();
      return site.writer.committed > 20;
    });
  });

  it("ends its wait for the data of a message, too", async () => {
    using site = new ChannelSite();
    using gate = site.device.createTimeline();
    using filling = site.device.createStream();
    using stream = refusing(site, Number.POSITIVE_INFINITY);
    using reader = site.reader();
    site.writer.tryLoan()?.commit();
    const slot = await reader.next();
    filling.wait(gate, 1);
    site.writer.tryLoan()?.commit({ stream: filling });
    const waiting = reader.next();
    await turn();
    assert.throws(() => slot?.release({ stream }), lost);
    await assert.rejects(soon("the wait ends", waiting), lost);
    gate.signal(1);
    await filling.synchronize();
  });

  it("closes without another error if the stream refuses only then, while next() waits", async () => {
    using site = new ChannelSite();
    using stream = refusing(site, Number.POSITIVE_INFINITY);
    const reader = site.reader({ spinMs: 0 });
    for (let count = 0; count < 2; count += 1) site.writer.tryLoan()?.commit();
    const first = reader.tryNext();
    // The stream gives it back after the first one.
    reader.tryNext()?.release({ stream });
    const waiting = assert.rejects(reader.next(), { code: "CLOSED" });
    await turn();
    reader.close();
    await soon("the wait ends", waiting);
    assert.equal(first?.open, false);
    await until("its seat is free", () => site.writer.readers === 0);
  });

  it("works on when the stream no longer refuses", async () => {
    using site = new ChannelSite();
    using stream = refusing(site, 2);
    using reader = site.reader({ stream });
    full(site);
    const first = await reader.next();
    assert.throws(() => first?.release(), lost);
    assert.throws(() => reader.tryNext(), lost);
    (await reader.next())?.release();
    await stream.synchronize();
    for (let count = 0; count < 2; count += 1) assert.ok(site.writer.tryLoan()?.commit());
    assert.equal(site.writer.tryLoan(), undefined);
  });
});
