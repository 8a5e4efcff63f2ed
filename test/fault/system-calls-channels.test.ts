/**
 * Each system call of a client with channels fails in turn, with each errno that it can set. The
 * error names the call, nothing is left in the client or on the hub, and the next operation works.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ChannelReader } from "../../src/channel/channel-reader.js";
import type { ChannelWriter } from "../../src/channel/channel-writer.js";
import type { Hub } from "../../src/client/hub.js";
import { ClientSite } from "../support/client-site.js";
import { checkLeaks } from "../support/leak-check.js";
import { type Round, sweepSystemCalls } from "../support/system-call-sweep.js";
import { until } from "../support/until.js";

const SMALL = { byteLength: 8, slots: 1, readersMax: 1 } as const;
const LATE = { timeoutMs: 30_000 };

interface Operation {
  readonly name: string;
  /** Calls that must be among those that failed: the test is about them. */
  readonly calls: readonly string[];
  /** @param other a client whose calls do not fail */
  run(hub: Hub, round: Round, other: Hub): Promise<void>;
}

/** Passes one message from the writer to the reader. */
async function passOne(writer: ChannelWriter, reader: ChannelReader): Promise<void> {
  const { committed } = writer;
  (await writer.loan(LATE)).commit();
  const slot = await reader.next(LATE);
  assert.equal(slot?.sequence, committed);
  slot.release();
}

const operations: readonly Operation[] = [
  {
    name: "createChannel",
    calls: ["memfd_create", "ftruncate", "eventfd", "fcntl", "mmap", "sendmsg", "recvmsg"],
    async run(hub, { failing }, other) {
      using writer = await failing(() => hub.createChannel("channel", SMALL));
      using reader = await other.openChannel("channel");
      await passOne(writer, reader);
    },
  },
  {
    name: "openChannel",
    calls: ["sendmsg", "recvmsg", "fstatSync", "fcntl", "mmap"],
    async run(hub, { failing }, other) {
      using writer = await other.createChannel("channel", SMALL);
      using reader = await failing(() => hub.openChannel("channel"));
      await passOne(writer, reader);
    },
  },
  {
    name: "resumeChannel",
    calls: ["sendmsg", "recvmsg", "fstatSync", "fcntl", "mmap"],
    async run(hub, { failing }, other) {
      const first = await other.createChannel("channel", { ...SMALL, whenWriterGone: "wait" });
      using reader = await other.openChannel("channel");
      await passOne(first, reader);
      first.close();
      // The hub has handled the close once it answers this: it answers in order.
      await other.status();
      const writer = await failing(() => hub.resumeChannel("channel"));
      await passOne(writer, reader);
      writer.end();
    },
  },
  {
    name: "observeChannel",
    calls: ["sendmsg", "recvmsg", "fstatSync", "mmap"],
    async run(hub, { failing }, other) {
      using _writer = await other.createChannel("channel", SMALL);
      using observer = await failing(() => hub.observeChannel("channel"));
      assert.equal(observer.statistics().writer, "open");
    },
  },
  {
    name: "a message to a reader that sleeps",
    calls: ["kernel"],
    async run(hub, { failing }, other) {
      using writer = await hub.createChannel("channel", SMALL);
      using reader = await other.openChannel("channel", { spinMs: 0 });
      using watched = await other.observeChannel("channel");
      const waiting = reader.next(LATE);
      await until("the reader sleeps", () => watched.statistics().readers[0]?.asleep === true);
      const slot = await writer.loan();
      await failing(() => void slot.commit()).catch(async (error: unknown) => {
        // The message is committed all the same. The next loan() or the end wakes the reader.
        assert.throws(() => slot.commit(), { code: "CLOSED" });
        await Promise.all([writer.loan({ timeoutMs: 1 }).catch(() => {}), writer.end()]);
        (await waiting)?.release();
        throw error;
      });
      (await waiting)?.release();
      await passOne(writer, reader);
    },
  },
  {
    name: "the close of a writer and of a reader",
    calls: ["munmap", "close", "sendmsg"],
    async run(hub, { failing }, other) {
      const writer = await hub.createChannel("channel", SMALL);
      using theirs = await other.createChannel("other", SMALL);
      const reader = await hub.openChannel("other");
      await passOne(theirs, reader);
      await failing(() => {
        try {
          writer.close();
        } finally {
          reader.close();
        }
      });
    },
  },
];

describe("a system call that fails in a client with channels", () => {
  const site = new ClientSite();
  checkLeaks(() => site.close());

  for (const { name, calls, run } of operations) {
    it(`fails ${name}, and the next operation works`, async () => {
      await site.prepare();
      const round = (round: Round) => site.run(run, round);
      const failed = await sweepSystemCalls(round, { check: (result) => site.check(result) });
      for (const call of calls)
        assert.ok(failed.has(call), `${call} is not among ${[...failed].join(", ")}`);
    });
  }
});
