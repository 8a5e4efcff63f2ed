import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type ArrivedMessage, ChannelRead } from "../../../../src/bridge/link/channel-read.js";

function reading(asked: number) {
  const seen = { asked: [] as number[], ended: 0 };
  const read = new ChannelRead(asked, {
    ask: (count) => seen.asked.push(count),
    end: () => {
      seen.ended += 1;
    },
  });
  return { seen, read };
}

function numbered(sequence: number): ArrivedMessage {
  const message = { kind: "message", read: 1, sequence, byteLength: 0, metaIsJson: false } as const;
  const bytes = new Uint8Array(0);
  return { message: { ...message, export: undefined, shape: undefined, meta: bytes }, bytes };
}

describe("ChannelRead", () => {
  it("gives messages in their order, then the end", async () => {
    const { seen, read } = reading(2);
    const first = read.next();
    const sent = [numbered(0), numbered(1)];
    for (const message of sent) read.arrive(message);
    read.end({ gone: true, sequence: 7 });
    assert.deepEqual([await first, await read.next()], sent);
    assert.deepEqual(await read.next(), { gone: true, sequence: 7 });
    assert.deepEqual(await read.next(), { gone: true, sequence: 7 });
    assert.equal(seen.ended, 1);
  });

  it("gives messages that have come before it failed", async () => {
    const { read } = reading(1);
    const waiting = read.next();
    read.arrive(numbered(7));
    read.end({ failure: new Error("cut") });
    await waiting;
    await assert.rejects(read.next(), /cut/);
  });

  it("wakes a wait with the failure", async () => {
    const { read } = reading(1);
    const waiting = read.next();
    read.end({ failure: new Error("cut") });
    await assert.rejects(waiting, /cut/);
  });

  it("refuses messages that were not asked for", () => {
    const { seen, read } = reading(1);
    read.arrive(numbered(0));
    assert.throws(() => read.arrive(numbered(1)), { code: "INVALID_MESSAGE" });
    read.more(2);
    assert.deepEqual(seen.asked, [2]);
    read.arrive(numbered(1));
    read.arrive(numbered(2));
    assert.throws(() => read.arrive(numbered(3)), { code: "INVALID_MESSAGE" });
  });

  it("asks for nothing after its end", () => {
    const { seen, read } = reading(1);
    read.end({ gone: false, sequence: 7 });
    read.more(1);
    assert.deepEqual(seen.asked, []);
  });
});
