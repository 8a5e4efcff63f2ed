/** Each part of two linked machines ends while a channel is carried. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import type { ChannelReader } from "../../../src/channel/channel-reader.js";
import type { ChannelWriter } from "../../../src/channel/channel-writer.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { restore, startShared } from "../../support/machines/shared-site.js";
import type { TwoMachines } from "../../support/machines/two-machines.js";
import { soon, until } from "../../support/until.js";

interface Carried extends Disposable {
  readonly writer: ChannelWriter;
  readonly reader: ChannelReader;
}

/** Messages that cross before something ends. */
const EARLIER = 3;

/** A channel of machine "one" that machine "other" reads. Some messages have come. */
async function carried({ hubOfOne, hubOfOther }: TwoMachines): Promise<Carried> {
  const writer = await hubOfOne.createChannel("frames", {
    byteLength: 100_000,
    slots: 4,
    whenFull: "drop-oldest",
  });
  const reader = await hubOfOther.openChannel("frames", { machine: "any", timeoutMs: 20_000 });
  for (let i = 0; i < EARLIER; i += 1) await cross({ writer, reader }, i);
  return {
    ...{ writer, reader },
    [Symbol.dispose]() {
      reader.close();
      writer.close();
    },
  };
}

type Ends = Pick<Carried, "writer" | "reader">;

/** One message, whole. */
async function cross({ writer, reader }: Ends, value: number): Promise<void> {
  const slot = await writer.loan({ timeoutMs: 10_000 });
  slot.bytes.fill(value);
  slot.commit();
  using message = await reader.next({ timeoutMs: 20_000 });
  assert.ok(message?.bytes.every((it) => it === value));
}

/** Messages until one crosses. What was lost on the way counts as missed, and none is half. */
async function crossAgain({ writer, reader }: Ends): Promise<void> {
  let written = 0;
  let isOver = false;
  const write = async () => {
    for (; !isOver; written += 1) {
      const slot = await writer.loan({ timeoutMs: 10_000 });
      slot.bytes.fill(written % 251);
      slot.commit();
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const read = async () => {
    try {
      using message = await reader.next({ timeoutMs: 30_000 });
      assert.ok(message !== undefined);
      const at = message.sequence - EARLIER;
      assert.equal(message.missed, at);
      assert.ok(message.bytes.every((it) => it === at % 251));
    } finally {
      isOver = true;
    }
  };
  await Promise.all([write(), read()]);
}

describe("while a channel is carried", { skip: skipWithoutEngines }, () => {
  let site: TwoMachines;

  before(async () => {
    site = await startShared();
  });
  afterEach(() => restore(site));
  after(() => site?.[Symbol.asyncDispose]());

  it("the bridge that reads it is killed, and the next one is there in time: messages go on", async () => {
    using frames = await carried(site);
    await site.one.killBridge();
    site.one.startBridge();
    await crossAgain(frames);
    await until("the dead bridge holds no seat", () => frames.writer.readers === 1);
  });

  it("the bridge that reads it is killed for good: PEER_GONE, and nothing is left", async () => {
    using frames = await carried(site);
    await site.one.killBridge();
    const next = soon("the wait ends", frames.reader.next());
    await assert.rejects(next, { code: "PEER_GONE" });
    await until("no seat is held", () => frames.writer.readers === 0);
    frames.reader.close();
    await until("the channel is gone", async () => (await site.hubOfOther.list()).length === 0);
  });

  it("the bridge that carries it is killed: PEER_GONE, and the next one carries it again", async () => {
    using frames = await carried(site);
    await site.other.killBridge();
    const next = soon("the wait ends", frames.reader.next());
    await assert.rejects(next, { code: "PEER_GONE" });
    await until("no seat is held", () => frames.writer.readers === 0);
    frames.reader.close();
    site.other.startBridge();
    await site.other.bridged();
    const options = { machine: "any", timeoutMs: 20_000 } as const;
    using reader = await site.hubOfOther.openChannel("frames", options);
    await crossAgain({ writer: frames.writer, reader });
  });

  for (const side of ["one", "other"] as const)
    it(`the hub of machine "${side}" is killed: messages go on`, async () => {
      using frames = await carried(site);
      site[side].hub.kill("SIGKILL");
      await cross(frames, 7);
      await cross(frames, 8);
    });

  it("NATS is killed: messages go on, also after its return", async () => {
    using frames = await carried(site);
    await site.nats.kill();
    await cross(frames, 7);
    await site.other.says("NATS does not answer");
    await cross(frames, 8);
    await site.nats.resume();
    await site.other.says("NATS answers again");
    await cross(frames, 9);
  });

  it("NATS stands still: messages go on, and the bridges notice", async () => {
    using frames = await carried(site);
    site.nats.signal("SIGSTOP");
    try {
      await cross(frames, 7);
      await site.other.says("NATS does not answer");
      await cross(frames, 8);
    } finally {
      site.nats.signal("SIGCONT");
    }
    await site.other.says("NATS answers again");
    await cross(frames, 9);
  });
});
