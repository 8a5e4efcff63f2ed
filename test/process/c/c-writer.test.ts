/** The client in C writes channels that Node and C read, and goes on with those of others. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ChannelReader, ChannelWriter, Hub } from "../../../src/index.js";
import { until } from "../../support/until.js";
import { withCHub } from "./c-hub.js";
import { skip } from "./c-programs.js";

const LIMIT = { timeoutMs: 60_000 };

interface Counted {
  readonly end: string;
  readonly wrong: number;
  readonly received: number;
}

/** Each message has its number as meta and in each byte. Returns the numbers. */
async function check(reader: ChannelReader, name: string): Promise<number[]> {
  const numbers: number[] = [];
  for await (const slot of reader) {
    using message = slot;
    const number = Number(message.json);
    assert.ok(
      message.bytes.every((byte) => byte === number % 251),
      `${name}: ${number}`,
    );
    numbers.push(number);
  }
  return numbers;
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);

describe("a writer of a channel in C", { skip }, () => {
  let hub: Hub;
  const peer = withCHub((it) => {
    hub = it.hub;
  });

  it("waits for its readers and loses nothing", async () => {
    const count = 20_000;
    await using writer = peer("writes", "c-wait", "0", String(count));
    assert.equal(await writer.said(), "writing");
    using first = await hub.openChannel("c-wait", LIMIT);
    using second = await hub.openChannel("c-wait", LIMIT);
    await using third = peer("counts", "c-wait");
    assert.equal(await third.said(), "reading");
    const checks = [check(first, "first"), check(second, "second")];
    writer.tell();
    assert.deepEqual(await writer.said(), { refused: 0, readers: 3 });
    writer.tell();
    const wanted = Array.from({ length: count }, (_, index) => index);
    for (const sequences of await Promise.all(checks)) assert.deepEqual(sequences, wanted);
    const { received, wrong } = (await third.said()) as Counted;
    assert.deepEqual({ received, wrong }, { received: count, wrong: 0 });
    await writer.finish();
    await third.finish();
  });

  for (const [policy, number] of Object.entries({ "drop-oldest": "1", "drop-newest": "2" })) {
    it(`drops as ${policy} says, and its readers see whole messages`, async () => {
      const [name, count] = [`c-${policy}`, 20_000];
      await using writer = peer("writes", name, number, String(count));
      assert.equal(await writer.said(), "writing");
      using reader = await hub.openChannel(name, LIMIT);
      using observer = await hub.observeChannel(name);
      const checking = check(reader, name);
      writer.tell();
      assert.deepEqual(await writer.said(), { refused: 0, readers: 1 });
      const { dropped } = observer.statistics();
      writer.tell();
      const sequences = await checking;
      assert.ok(sequences.length > 0);
      const ascends = (sequence: number, index: number) => sequence > (sequences[index - 1] ?? -1);
      assert.ok(sequences.every(ascends));
      if (policy === "drop-newest") assert.ok(dropped > 0 && sequences.length <= count);
      else assert.equal(sequences.at(-1), count - 1);
      await writer.finish();
    });
  }

  it("says CHANNEL_FULL if that is its policy", async () => {
    await using writer = peer("writes", "c-error", "3", "10");
    assert.equal(await writer.said(), "writing");
    using reader = await hub.openChannel("c-error", LIMIT);
    writer.tell();
    assert.deepEqual(await writer.said(), { refused: 6, readers: 1 });
    writer.tell();
    assert.deepEqual(await check(reader, "c-error"), [0, 1, 2, 3]);
    await writer.finish();
  });

  it("passes over a slot that a lossy reader holds", async () => {
    await using writer = peer("writes", "c-held", "0", "100");
    assert.equal(await writer.said(), "writing");
    using holder = await hub.openChannel("c-held", { lossy: true, ...LIMIT });
    using reader = await hub.openChannel("c-held", LIMIT);
    writer.tell();
    using held = await holder.next(LIMIT);
    const checking = check(reader, "c-held");
    assert.deepEqual(await writer.said(), { refused: 0, readers: 2 });
    writer.tell();
    assert.equal((await checking).length, 100);
    assert.ok(held?.bytes.every((byte) => byte === held.sequence % 251));
    await writer.finish();
  });

  it("names the reader that keeps it waiting", async () => {
    await using writer = peer("loans", "c-full", "50");
    assert.equal(await writer.said(), "writing");
    using _reader = await hub.openChannel("c-full", LIMIT);
    writer.tell();
    const [code, message] = (await writer.said()) as [string, string];
    assert.equal(code, "TIMEOUT");
    const text = Buffer.from(message, "hex").toString();
    assert.equal(text, 'Cannot write to "c-full" within 50 ms: reader 0 is 1 messages behind');
    await writer.finish();
  });

  it("says that a reader of its own process keeps it waiting", async () => {
    await using writer = peer("loans", "c-own", "1", "own");
    assert.equal(await writer.said(), "writing");
    writer.tell();
    const [code, message] = (await writer.said()) as [string, string];
    assert.equal(code, "TIMEOUT");
    const text = Buffer.from(message, "hex").toString();
    assert.match(text, /: reader 0 of this process itself is 1 messages behind$/);
    await writer.finish();
  });

  it("says that a reader of its own process holds slots", async () => {
    await using writer = peer("loans", "c-held", "1", "own", "holds");
    assert.equal(await writer.said(), "writing");
    writer.tell();
    const [code, message] = (await writer.said()) as [string, string];
    assert.equal(code, "TIMEOUT");
    const text = Buffer.from(message, "hex").toString();
    assert.match(text, /: readers hold all slots, one of this process itself among them$/);
    await writer.finish();
  });

  it("is noticed by its readers if it is killed", async () => {
    const writer = peer("writes", "c-killed", "0", "3");
    try {
      assert.equal(await writer.said(), "writing");
      using reader = await hub.openChannel("c-killed", LIMIT);
      writer.tell();
      await writer.said();
      await writer[Symbol.asyncDispose]();
      await assert.rejects(check(reader, "c-killed"), { code: "PEER_GONE" });
      assert.equal(reader.received, 3);
    } finally {
      await writer[Symbol.asyncDispose]();
    }
  });

  describe("that follows another one", () => {
    const options = {
      dtype: "uint8",
      shape: [1000],
      ...{ slots: 4, readersMax: 3, metaBytesMax: 32 },
      whenWriterGone: "wait",
    } as const;

    async function write(writer: ChannelWriter, first: number, count: number): Promise<void> {
      for (let sequence = first; sequence < first + count; sequence += 1) {
        using slot = await writer.loan(LIMIT);
        slot.bytes.fill(sequence % 251);
        slot.commit({ meta: sequence });
      }
    }

    interface Resumed {
      readonly sequence: number;
      readonly dtype: string;
      readonly shape: readonly number[];
    }

    /** Starts writers until one follows, because the hub may still see the one before. */
    async function resumesInC(name: string, count: string, ...end: string[]) {
      for (;;) {
        const writer = peer("resumes", name, count, "60000", ...end);
        const said = (await writer.said()) as Resumed | [string, string];
        if (!Array.isArray(said)) {
          const { sequence, dtype, shape } = said as Resumed;
          assert.deepEqual([dtype, shape], ["uint8", [1000]]);
          return Object.assign(writer, { sequence });
        }
        assert.equal(said[0], "IN_USE");
        await writer.finish();
      }
    }

    it("goes on with the sequence of a writer in Node, and ends the channel", async () => {
      using reader = await followed("from-node", 3);
      const checking = check(reader, "from-node");
      await using second = await resumesInC("from-node", "500", "end");
      assert.equal(second.sequence, 3);
      second.tell();
      assert.deepEqual(await second.said(), { refused: 0, readers: 1 });
      second.tell();
      assert.deepEqual(await checking, upTo(503));
      await second.finish();
    });

    /** A channel to which Node has written `count` messages, and its reader from the first on. */
    async function followed(name: string, count: number): Promise<ChannelReader> {
      using writer = await hub.createChannel(name, options);
      const reader = await hub.openChannel(name, LIMIT);
      await write(writer, 0, count);
      return reader;
    }

    it("is followed by one in Node after it was killed", async () => {
      const first = peer("writes", "from-c", "0", "3", "wait");
      try {
        assert.equal(await first.said(), "writing");
        using reader = await hub.openChannel("from-c", LIMIT);
        await using third = peer("counts", "from-c");
        assert.equal(await third.said(), "reading");
        first.tell();
        await first.said();
        await assert.rejects(hub.resumeChannel("from-c"), { code: "IN_USE" });
        await first[Symbol.asyncDispose]();
        const second = await resumeSoon("from-c");
        const checking = check(reader, "from-c");
        await write(second, 3, 100);
        second.end();
        assert.deepEqual(await checking, upTo(103));
        const { end, wrong, received } = (await third.said()) as Counted;
        assert.deepEqual({ end, wrong, received }, { end: "closed", wrong: 0, received: 103 });
        await third.finish();
      } finally {
        await first[Symbol.asyncDispose]();
      }
    });

    /** The hub learns of a death a little later than this process. */
    async function resumeSoon(name: string): Promise<ChannelWriter> {
      let writer: ChannelWriter | undefined;
      await until("the hub has seen the end of the writer", async () => {
        writer = await hub.resumeChannel(name).catch((error) => {
          assert.equal(error.code, "IN_USE");
          return undefined;
        });
        return writer !== undefined;
      });
      return writer as ChannelWriter;
    }

    it("follows others in C that were killed while they wrote, and loses nothing", async () => {
      const name = "c-chain";
      using reader = await followed(name, 0);
      const numbers: number[] = [];
      const readOne = async () => {
        using slot = await reader.next(LIMIT);
        assert.ok(slot);
        const number = Number(slot.json);
        assert.ok(slot.bytes.every((byte) => byte === number % 251));
        numbers.push(number);
      };
      for (let death = 0; death < 5; death += 1) {
        const dies = await resumesInC(name, "1000000");
        try {
          dies.tell();
          // It waits for room or is in the middle of a message when it is killed.
          for (let i = 0; i < 50; i += 1) await readOne();
        } finally {
          await dies[Symbol.asyncDispose]();
        }
      }
      const last = await resumesInC(name, "1");
      const checking = check(reader, name);
      last.tell();
      await last.said();
      await last.finish();
      using end = await resumeSoon(name);
      end.end();
      numbers.push(...(await checking));
      assert.deepEqual(numbers, upTo(numbers.length));
      assert.ok(numbers.length > 250);
    });

    it("is refused while the channel has a writer, and if it does not wait for one", async () => {
      using _writer = await hub.createChannel("has-writer", options);
      using _ends = await hub.createChannel("ends", { byteLength: 8 });
      for (const name of ["has-writer", "ends"]) {
        await using second = peer("resumes", name, "1", "0");
        const [code] = (await second.said()) as [string, string];
        assert.equal(code, "IN_USE");
        await second.finish();
      }
      using _array = await hub.put("an-array", Int8Array.of(1));
      for (const [name, wanted] of [
        ["an-array", "WRONG_KIND"],
        ["nothing", "NOT_FOUND"],
      ] as const) {
        await using second = peer("resumes", name, "1", "0");
        assert.equal(((await second.said()) as [string, string])[0], wanted);
        await second.finish();
      }
    });

    it("leaves the channel to the next one when it closes", async () => {
      await using first = peer("writes", "c-left", "0", "2", "wait");
      assert.equal(await first.said(), "writing");
      using reader = await hub.openChannel("c-left", LIMIT);
      using observer = await hub.observeChannel("c-left");
      first.tell();
      await first.said();
      first.tell();
      await first.finish();
      await until("the writer has left", () => observer.statistics().writer === "awaited");
      await using second = await resumesInC("c-left", "2", "end");
      assert.deepEqual(second.sequence, 2);
      second.tell();
      await second.said();
      second.tell();
      assert.deepEqual(await check(reader, "c-left"), upTo(4));
      await second.finish();
    });
  });
});
