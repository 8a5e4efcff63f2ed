/** Channels that the CPU orders. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { DeviceArray } from "../../src/gpu/arrays/device-array.js";
import { assertValue, ChannelCase, ELEMENTS, LATE, nextOf } from "./channel-cases.js";
import type { Subject } from "./describe-conformance.js";

export function channelPromises({ rig }: Subject): void {
  it("pass messages on in the order of the CPU", async () => {
    const channel = new ChannelCase(rig());
    const readers = [channel.reader(), channel.reader()];
    for (let value = 0; value < 10; value += 1) {
      using loan = await channel.writer.loan(LATE);
      await loan.array.write(new Int32Array(ELEMENTS).fill(value));
      assert.equal(loan.commit(), value);
      for (const reader of readers) {
        using slot = await nextOf(reader);
        assert.deepEqual([slot.sequence, slot.missed], [value, 0]);
        await assertValue(slot.array, value);
      }
    }
  });

  it("carry meta, as bytes and as JSON, and the time", async () => {
    const channel = new ChannelCase(rig());
    const reader = channel.reader();
    for (const meta of [
      undefined,
      Uint8Array.of(),
      Uint8Array.of(1, 2, 255),
      { frame: 7, tags: ["a"] },
      null,
      5,
    ]) {
      const beforeMs = performance.timeOrigin + performance.now();
      channel.writer.tryLoan()?.commit({ meta });
      using slot = await nextOf(reader);
      assert.ok(
        slot.timestampMs >= beforeMs &&
          slot.timestampMs <= performance.timeOrigin + performance.now(),
      );
      if (meta === undefined || meta instanceof Uint8Array) {
        assert.deepEqual([slot.meta, slot.json], [meta ?? Uint8Array.of(), undefined]);
      } else assert.deepEqual(slot.json, meta);
    }
  });

  it("carry messages of any size up to the slot, in shapes of their own", async () => {
    const channel = new ChannelCase(rig());
    const reader = channel.reader();
    const sizes: { shape?: readonly number[]; byteLength?: number; wanted: readonly number[] }[] = [
      { wanted: [ELEMENTS] },
      { shape: [2, 3], wanted: [2, 3] },
      { shape: [], wanted: [] },
      { shape: [0, 7], wanted: [0, 7] },
      { shape: [1, 1, 1, 1, 1, 1, 1, ELEMENTS], wanted: [1, 1, 1, 1, 1, 1, 1, ELEMENTS] },
      { byteLength: 40, wanted: [10] },
      { byteLength: 0, wanted: [0] },
    ];
    for (const [index, { wanted, ...size }] of sizes.entries()) {
      using loan = await channel.writer.loan(LATE);
      await loan.array.write(new Int32Array(ELEMENTS).fill(index));
      loan.commit(size);
      using slot = await nextOf(reader);
      assert.deepEqual(slot.array.shape, wanted);
      assert.equal(slot.byteLength, slot.array.byteLength);
      await assertValue(slot.array, index);
    }
  });

  it("lend an uncommitted slot again, and no reader sees it", async () => {
    const channel = new ChannelCase(rig());
    const reader = channel.reader();
    {
      using loan = await channel.writer.loan(LATE);
      await loan.array.write(new Int32Array(ELEMENTS).fill(1));
    }
    {
      using loan = await channel.writer.loan(LATE);
      await loan.array.write(new Int32Array(ELEMENTS).fill(2));
      assert.equal(loan.commit(), 0);
    }
    using slot = await nextOf(reader);
    await assertValue(slot.array, 2);
    assert.equal(reader.tryNext(), undefined);
  });

  it("keep the message a reader holds while newer ones overwrite the others", async () => {
    const channel = new ChannelCase(rig(), { whenFull: "drop-oldest", slots: 4 });
    const reader = channel.reader();
    const put = async (value: number) => {
      using loan = await channel.writer.loan(LATE);
      await loan.array.write(new Int32Array(ELEMENTS).fill(value));
      loan.commit();
    };
    await put(0);
    using held = await nextOf(reader);
    const array: DeviceArray = held.array;
    for (let value = 1; value <= 20; value += 1) {
      await put(value);
      await assertValue(array, 0);
    }
    let last = 0;
    for (let slot = reader.tryNext(); slot !== undefined; slot = reader.tryNext()) {
      assert.equal(slot.sequence, last + slot.missed + 1);
      await assertValue(slot.array, slot.sequence);
      last = slot.sequence;
      slot.release();
    }
    assert.equal(last, 20);
    assert.equal(reader.received + reader.missed, 21);
  });

  it("lend memory that no reader sees if the newest message is dropped", async () => {
    const channel = new ChannelCase(rig(), { whenFull: "drop-newest", slots: 2 });
    const reader = channel.reader();
    for (let value = 0; value < 5; value += 1) {
      using loan = await channel.writer.loan(LATE);
      assert.equal(loan.willBeDropped, value >= 2);
      await loan.array.write(new Int32Array(ELEMENTS).fill(value));
      assert.equal(loan.commit(), value < 2 ? value : undefined);
    }
    assert.equal(channel.writer.dropped, 3);
    for (const value of [0, 1]) {
      using slot = await nextOf(reader);
      await assertValue(slot.array, value);
    }
    assert.equal(reader.tryNext(), undefined);
  });
}
