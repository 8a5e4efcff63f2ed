/** Channels that streams order, on one side or both, while no CPU waits. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { assertValue, ChannelCase, ELEMENTS, LATE, nextOf } from "./channel-cases.js";
import { turns, until } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";

const MESSAGES = 60;

export function channelStreamPromises({ rig }: Subject): void {
  it("pass messages from stream to stream", async () => {
    const channel = new ChannelCase(rig());
    const [from, to] = [channel.stream(), channel.stream()];
    const out = channel.messages(MESSAGES);
    const reader = channel.reader({ stream: to });
    const sending = (async () => {
      for (let value = 0; value < MESSAGES; value += 1) await channel.send(from, value);
    })();
    for (let value = 0; value < MESSAGES; value += 1) {
      using slot = await nextOf(reader);
      await out.slice(value).copyFrom(slot.array.expectDType("int32"), { stream: to });
    }
    await sending;
    await to.synchronize(LATE);
    for (let value = 0; value < MESSAGES; value += 1) await assertValue(out.slice(value), value);
  });

  it("make the reader's stream wait for the data, not its CPU", async () => {
    const channel = new ChannelCase(rig());
    const [from, to] = [channel.stream(), channel.stream()];
    const out = channel.messages(1);
    const reader = channel.reader({ stream: to });
    const gate = channel.gate(from);
    await channel.send(from, 7);
    using slot = await nextOf(reader);
    await out.slice(0).copyFrom(slot.array.expectDType("int32"), { stream: to });
    await turns();
    assert.equal(to.isIdle(), false);
    gate.open();
    await to.synchronize(LATE);
    await assertValue(out, 7);
  });

  it("give a CPU the data of a stream once it is written", async () => {
    const channel = new ChannelCase(rig());
    const from = channel.stream();
    const reader = channel.reader();
    const gate = channel.gate(from);
    for (const value of [1, 2]) await channel.send(from, value);
    assert.equal(reader.tryNext(), undefined);
    await assert.rejects(reader.next({ timeoutMs: 10 }), { code: "TIMEOUT" });
    const waiting = reader.next(LATE);
    gate.open();
    for (const value of [1, 2]) {
      using slot = value === 1 ? await waiting : await nextOf(reader);
      assert.ok(slot);
      await assertValue(slot.array, value);
    }
  });

  it("keep a CPU from a slot that a reader's stream still reads", async () => {
    const channel = new ChannelCase(rig(), { slots: 2 });
    const to = channel.stream();
    const out = channel.messages(2);
    const reader = channel.reader({ stream: to });
    for (const value of [1, 2]) {
      using loan = await channel.writer.loan(LATE);
      await loan.array.write(new Int32Array(ELEMENTS).fill(value));
      loan.commit();
    }
    const gate = channel.gate(to);
    for (const index of [0, 1]) {
      using slot = await nextOf(reader);
      await out.slice(index).copyFrom(slot.array.expectDType("int32"), { stream: to });
    }
    assert.equal(channel.writer.tryLoan(), undefined);
    await assert.rejects(channel.writer.loan({ timeoutMs: 10 }), { code: "TIMEOUT" });
    const waiting = channel.writer.loan(LATE);
    gate.open();
    using loan = await waiting;
    await loan.array.write(new Int32Array(ELEMENTS).fill(3));
    await to.synchronize(LATE);
    await assertValue(out.slice(0), 1);
    await assertValue(out.slice(1), 2);
  });

  it("make a writer's stream wait for a reader's, not its CPU", async () => {
    const channel = new ChannelCase(rig(), { slots: 2 });
    const [from, to] = [channel.stream(), channel.stream()];
    const out = channel.messages(6);
    const reader = channel.reader({ stream: to });
    const gate = channel.gate(to);
    for (let value = 0; value < 6; value += 1) {
      await channel.send(from, value);
      using slot = await nextOf(reader);
      await out.slice(value).copyFrom(slot.array.expectDType("int32"), { stream: to });
    }
    await turns();
    assert.equal(from.isIdle(), false);
    gate.open();
    await to.synchronize(LATE);
    for (let value = 0; value < 6; value += 1) await assertValue(out.slice(value), value);
  });

  it("are in order if different streams commit", async () => {
    const channel = new ChannelCase(rig(), { slots: 8 });
    const streams = [channel.stream(), channel.stream(), channel.stream()] as const;
    const reader = channel.reader();
    const gate = channel.gate(streams[0]);
    for (let value = 0; value < 6; value += 1)
      await channel.send(streams[value % 3] as (typeof streams)[0], value);
    using loan = await channel.writer.loan(LATE);
    await loan.array.write(new Int32Array(ELEMENTS).fill(6));
    loan.commit();
    await turns();
    assert.equal(reader.tryNext(), undefined);
    gate.open();
    for (let value = 0; value < 7; value += 1) {
      using slot = await nextOf(reader);
      await assertValue(slot.array, value);
    }
  });

  it("take slots back from streams in any order", async () => {
    const channel = new ChannelCase(rig(), { slots: 3 });
    const from = channel.stream();
    const streams = [channel.stream(), channel.stream(), channel.stream()] as const;
    const out = channel.messages(3);
    const reader = channel.reader();
    for (let value = 0; value < 3; value += 1) await channel.send(from, value);
    const slots = [await nextOf(reader), await nextOf(reader), await nextOf(reader)] as const;
    const gates = streams.map((stream) => channel.gate(stream));
    for (const index of [2, 0, 1] as const) {
      await out
        .slice(index)
        .copyFrom(slots[index].array.expectDType("int32"), { stream: streams[index] });
      slots[index].release({ stream: streams[index] });
    }
    for (const index of [2, 1, 0] as const) {
      assert.equal(channel.writer.tryLoan(), undefined);
      gates[index]?.open();
    }
    for (let value = 3; value < 6; value += 1) await channel.send(from, value);
    await from.synchronize(LATE);
    for (const stream of streams) await stream.synchronize(LATE);
    for (let value = 0; value < 3; value += 1) await assertValue(out.slice(value), value);
  });

  it("never show a stream newer bytes than those of its message, however far it is behind", async () => {
    const channel = new ChannelCase(rig(), { slots: 16, whenFull: "drop-oldest" });
    const [from, to] = [channel.stream(), channel.stream()];
    const out = channel.messages(32);
    const reader = channel.reader({ stream: to });
    const gate = channel.gate(to);
    const values: number[] = [];
    for (let value = 0; value < 40; value += 1) {
      await channel.send(from, value);
      if (values.length === 8) continue;
      using slot = await nextOf(reader);
      values.push(slot.sequence);
      await out.slice(values.length - 1).copyFrom(slot.array.expectDType("int32"), { stream: to });
    }
    // Its stream holds all the slots it may hold, so this call waits.
    assert.equal(reader.tryNext(), undefined);
    await assert.rejects(reader.next({ timeoutMs: 10 }), { code: "TIMEOUT" });
    const waiting = reader.next(LATE);
    gate.open();
    const next = await waiting;
    assert.ok(next && next.sequence === 8 + next.missed);
    next.release();
    await to.synchronize(LATE);
    for (const [index, value] of values.entries()) await assertValue(out.slice(index), value);
  });

  it("skip a slot that a stream should fill and did not", async () => {
    const channel = new ChannelCase(rig(), { slots: 2 });
    const [slow, from] = [channel.stream(), channel.stream()];
    const reader = channel.reader();
    const gate = channel.gate(slow);
    {
      using loan = await channel.writer.loan({ stream: slow });
      channel.fill(slow, loan.array, 0xdead);
    }
    const late = channel.gate(from);
    const sending = (async () => {
      for (let value = 0; value < 6; value += 1) await channel.send(from, value);
    })();
    await turns();
    gate.open();
    await slow.synchronize(LATE);
    assert.equal(reader.tryNext(), undefined);
    late.open();
    for (let value = 0; value < 6; value += 1) {
      using slot = await nextOf(reader);
      assert.equal(slot.sequence, value);
      await assertValue(slot.array, value);
    }
    await sending;
  });

  it("end when the writer's streams are done", async () => {
    const channel = new ChannelCase(rig());
    const from = channel.stream();
    const reader = channel.reader();
    const gate = channel.gate(from);
    await channel.send(from, 3);
    channel.writer.close();
    assert.equal(channel.site.writerClosed, false);
    assert.equal(reader.tryNext(), undefined);
    gate.open();
    using slot = await nextOf(reader);
    await assertValue(slot.array, 3);
    assert.equal(await reader.next(LATE), undefined);
    await until("the writer has ended", () => channel.site.writerClosed);
  });

  it("hold a closed reader's slots until its stream is done with them", async () => {
    const channel = new ChannelCase(rig(), { slots: 2 });
    const to = channel.stream();
    const out = channel.messages(2);
    const reader = channel.reader({ stream: to });
    for (const value of [1, 2]) await channel.send(channel.stream(), value);
    const gate = channel.gate(to);
    const slots = [await nextOf(reader), await nextOf(reader)];
    for (const [index, slot] of slots.entries()) {
      await out.slice(index).copyFrom(slot.array.expectDType("int32"), { stream: to });
    }
    reader.close();
    for (const slot of slots) {
      assert.throws(() => slot.meta, { code: "CLOSED" });
      slot.release();
    }
    await turns();
    assert.equal(channel.writer.tryLoan(), undefined);
    const waiting = channel.writer.loan(LATE);
    gate.open();
    using loan = await waiting;
    await loan.array.write(new Int32Array(ELEMENTS).fill(9));
    await to.synchronize(LATE);
    await assertValue(out.slice(0), 1);
    await assertValue(out.slice(1), 2);
  });

  it("lose only what the GPU of a dead writer had not finished", async () => {
    const channel = new ChannelCase(rig());
    const [from, to] = [channel.stream(), channel.stream()];
    const [byCpu, byStream] = [channel.reader(), channel.reader({ stream: to })];
    await channel.send(from, 1);
    await from.synchronize(LATE);
    channel.gate(from);
    await channel.send(from, 2);
    const seen = [await nextOf(byStream), await nextOf(byStream)];
    assert.equal(to.isIdle(), false);
    channel.site.endWriter();
    await assert.rejects(to.synchronize(LATE), { code: "PEER_GONE" });
    await assertValue((seen[0] as (typeof seen)[0]).array, 1);
    using first = await nextOf(byCpu);
    await assertValue(first.array, 1);
    await assert.rejects(byCpu.next(LATE), { code: "PEER_GONE" });
    assert.deepEqual([byCpu.received, byCpu.missed], [1, 1]);
  });
}
