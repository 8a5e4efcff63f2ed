import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { DType } from "../../../src/array/dtype.js";
import type { ChannelReader } from "../../../src/channel/channel-reader.js";
import { DeviceArray } from "../../../src/gpu/arrays/device-array.js";
import { ChannelSite } from "../../support/channel-site.js";
import { checkLeaks, collect } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";

const DATA = [1, 2, 3, 4];
const SHAPE = { dtype: "uint8", shape: [4], slots: 2 } as const;
type Message = NonNullable<Awaited<ReturnType<ChannelReader["next"]>>>;

/** Fills all slots and takes all messages. Keeps only what `make` makes of each. */
async function keeping<T>(
  site: ChannelSite,
  reader: ChannelReader,
  make: (message: Message) => T,
): Promise<T[]> {
  const kept: T[] = [];
  for (let index = 0; index < site.writer.slots; index += 1) {
    send(site);
    const message = await reader.next();
    assert.ok(message);
    kept.push(make(message));
  }
  return kept;
}

function send(site: ChannelSite): void {
  const loan = site.writer.tryLoan();
  assert.ok(loan, "a slot is free");
  loan.bytes.set(DATA);
  loan.commit();
}

function isFull(site: ChannelSite): boolean {
  const loan = site.writer.tryLoan();
  loan?.close();
  return loan === undefined;
}

async function untilFree(site: ChannelSite): Promise<void> {
  await until("a slot is free", async () => {
    collect();
    await setImmediate();
    return !isFull(site);
  });
}

/** Long enough for a finalizer of something unreachable: two turns and two collections do it. */
async function staysFull(site: ChannelSite): Promise<void> {
  for (let round = 0; round < 5; round += 1) {
    await setImmediate();
    collect();
  }
  assert.ok(isFull(site));
}

describe("a message that the program drops", () => {
  checkLeaks();

  it("gives its slot back when it is collected, whatever was used of it", async () => {
    using site = new ChannelSite(SHAPE);
    using reader = site.reader();
    for (const use of [
      () => undefined,
      (message: Message) => void message.bytes.slice(),
      (message: Message) => void message.array.shape,
      (message: Message) => void message.array.view().slice(),
    ]) {
      await keeping(site, reader, use);
      await untilFree(site);
    }
    assert.equal(reader.received, 8);
  });

  it("gives its slot back if the writer has passed over the others", async () => {
    using site = new ChannelSite(SHAPE);
    using stream = site.device.createStream();
    using reader = site.reader();
    send(site);
    assert.ok(reader.tryNext());
    site.writer.tryLoan({ stream })?.close();
    await stream.synchronize();
    assert.equal(reader.tryNext(), undefined);
    assert.ok(isFull(site));
    await untilFree(site);
  });

  it("gives its slot back while its reader is behind", async () => {
    using site = new ChannelSite({ ...SHAPE, slots: 16 });
    using reader = site.reader();
    for (let index = 0; index < 16; index += 1) send(site);
    for (let index = 0; index < 8; index += 1) assert.ok(reader.tryNext());
    await untilFree(site);
  });

  it("gives its slot back although its lossy reader asks for no other one", async () => {
    using site = new ChannelSite({ ...SHAPE, readersMax: 2 });
    using one = site.reader({ lossy: true });
    using other = site.reader({ lossy: true });
    send(site);
    other.tryNext()?.release();
    send(site);
    assert.ok(one.tryNext());
    assert.ok(other.tryNext());
    assert.ok(isFull(site));
    await untilFree(site);
  });

  it("keeps its slot while an array or a view of it is used", async () => {
    using site = new ChannelSite(SHAPE);
    using reader = site.reader();
    for (const make of [
      (message: Message) => message.bytes,
      (message: Message) => message.bytes.subarray(1, 3),
      (message: Message) => message.bytes.buffer,
      (message: Message) => new DataView(message.bytes.buffer),
      (message: Message) => message.array,
      (message: Message) => message.array.slice(1),
      (message: Message) => message.array.buffer,
      (message: Message) => message.array.view(),
      (message: Message) => message.array.slice({ start: 1 }).view().subarray(1),
      (message: Message) => message.array.buffer.view().buffer,
    ]) {
      const kept = await keeping<unknown>(site, reader, make);
      await staysFull(site);
      assert.equal(kept.length, 2);
      kept.length = 0;
      await untilFree(site);
    }
  });

  it("keeps its slot while a view is used that was taken after a while", async () => {
    using site = new ChannelSite(SHAPE);
    using reader = site.reader();
    const kept: unknown[] = await keeping(site, reader, (message) => message);
    await staysFull(site);
    for (const [index, message] of kept.entries()) kept[index] = (message as Message).bytes;
    await staysFull(site);
    assert.deepEqual(
      kept.map((view) => [...(view as Uint8Array)]),
      [DATA, DATA],
    );
    kept.length = 0;
    await untilFree(site);
  });

  it("keeps its slot until a read of its array is done", async () => {
    using site = new ChannelSite(SHAPE);
    using reader = site.reader();
    const reads = await keeping(site, reader, (message) => message.array.read());
    assert.deepEqual(
      (await Promise.all(reads)).map((read) => [...read]),
      [DATA, DATA],
    );
    await untilFree(site);
  });

  it("keeps its slot if the program may use its memory in ways that cannot be seen", async () => {
    using site = new ChannelSite(SHAPE);
    using stream = site.device.createStream();
    using target = DeviceArray.allocate<DType>(site.device, { dtype: "uint8", shape: [4] });
    for (const use of [
      (message: Message) => void message.array.buffer.pointer,
      (message: Message) => void message.array.buffer.twin().close(),
      (message: Message) => void target.copyFrom(message.array, { stream }),
    ]) {
      using reader = site.reader();
      await keeping(site, reader, use);
      await staysFull(site);
    }
  });

  it("is given back after the work of its reader's stream", async () => {
    using site = new ChannelSite(SHAPE);
    using stream = site.device.createStream();
    using gate = site.device.createTimeline();
    using reader = site.reader({ stream });
    stream.wait(gate, 1);
    await keeping(site, reader, (message) => void message.array.shape);
    await staysFull(site);
    gate.signal(1);
    await untilFree(site);
    await stream.synchronize();
  });

  it("may outlive its reader", async () => {
    using site = new ChannelSite(SHAPE);
    const reader = site.reader();
    const kept: unknown[] = await keeping(site, reader, (message) => message);
    reader.close();
    assert.ok(kept.every((message) => !(message as Message).open));
    kept.length = 0;
    for (let round = 0; round < 3; round += 1) {
      collect();
      await setImmediate();
    }
    assert.ok(!isFull(site));
  });

  it("is looked for before its reader waits for a message that cannot come", async () => {
    using site = new ChannelSite(SHAPE);
    using reader = site.reader({ spinMs: 0 });
    for (const use of [() => undefined, (message: Message) => void message.bytes.slice()]) {
      await keeping(site, reader, use);
      const next = reader.next();
      const loan = await soon("a slot is free", site.writer.loan());
      loan.bytes.set(DATA);
      loan.commit();
      (await soon("the message", next))?.release();
    }
  });

  it("is looked for before a lossy reader would hold too many", async () => {
    using site = new ChannelSite({ ...SHAPE, slots: 16, whenFull: "drop-oldest" });
    using reader = site.reader();
    for (let index = 0; index < 40; index += 1) {
      send(site);
      assert.equal((await reader.next())?.sequence, index);
    }
  });
});

describe("a message without data", () => {
  checkLeaks();

  it("holds no slot, and stays readable until it is released", async () => {
    using site = new ChannelSite({ dtype: "float32", shape: [4], slots: 2 });
    using reader = site.reader();
    const held: Message[] = [];
    for (let index = 0; index < 5; index += 1) {
      const loan = site.writer.tryLoan();
      assert.ok(loan);
      loan.commit({ meta: { index }, shape: [0, 3] });
      const message = await reader.next();
      assert.ok(message);
      held.push(message);
    }
    for (const [index, message] of held.entries()) {
      assert.deepEqual(message.json, { index });
      assert.deepEqual(message.array.shape, [0, 3]);
      assert.equal(message.bytes.length, 0);
      assert.equal((await message.array.read()).length, 0);
      assert.ok(message.open);
      message.release();
      message.release();
      assert.ok(!message.open);
      assert.throws(() => message.json, { code: "CLOSED" });
      assert.throws(() => message.array, { code: "CLOSED" });
    }
  });

  it("closes with its reader", async () => {
    using site = new ChannelSite(SHAPE);
    const reader = site.reader();
    site.writer.tryLoan()?.commit({ byteLength: 0, meta: 1 });
    const message = await reader.next();
    reader.close();
    assert.throws(() => message?.json, { code: "CLOSED" });
  });

  it("can be ready later", async () => {
    using site = new ChannelSite(SHAPE);
    using reader = site.reader();
    using stream = site.device.createStream();
    using gate = site.device.createTimeline();
    stream.wait(gate, 1);
    for (let index = 0; index < 2; index += 1)
      site.writer.tryLoan({ stream })?.commit({ byteLength: 0, meta: index });
    assert.equal(reader.tryNext(), undefined);
    gate.signal(1);
    await stream.synchronize();
    const held = [await reader.next(), await reader.next()];
    assert.deepEqual(
      held.map((message) => message?.json),
      [0, 1],
    );
    assert.ok(!isFull(site));
  });
});

describe("a reader that holds all slots", () => {
  checkLeaks();

  it("is told that this process holds them", async () => {
    using site = new ChannelSite(SHAPE);
    using reader = site.reader({ spinMs: 0 });
    const held = await keeping(site, reader, (message) => message);
    await assert.rejects(reader.next({ timeoutMs: 1 }), {
      code: "TIMEOUT",
      message: new RegExp(`this process itself \\(process ${process.pid}\\) holds 2 messages`),
    });
    // The first one holds up the second, which was released.
    held[1]?.release();
    await assert.rejects(reader.next({ timeoutMs: 1 }), / holds 1 message that is not released$/);
    held[0]?.release();
    await assert.rejects(reader.next({ timeoutMs: 1 }), /committed nothing more/);
  });

  it("counts what it holds itself if it is lossy", async () => {
    using site = new ChannelSite(SHAPE);
    using reader = site.reader({ lossy: true, spinMs: 0 });
    const held = await keeping(site, reader, (message) => message);
    await assert.rejects(reader.next({ timeoutMs: 1 }), / holds 2 messages that are not released$/);
    held[1]?.release();
    await assert.rejects(reader.next({ timeoutMs: 1 }), /committed nothing more/);
    held[0]?.release();
  });

  it("is told so if it is lossy", async () => {
    using site = new ChannelSite({ ...SHAPE, slots: 16 });
    using reader = site.reader({ lossy: true });
    const held: unknown[] = [];
    for (let index = 0; index < 16; index += 1) send(site);
    for (let index = 0; index < 8; index += 1) held.push(reader.tryNext());
    const error = {
      code: "LIMIT_EXCEEDED",
      message: /this process itself .* holds 8 messages that are not released/,
    };
    assert.throws(() => reader.tryNext(), error);
    await assert.rejects(reader.next(), error);
    assert.equal(held.length, 8);
  });
});
