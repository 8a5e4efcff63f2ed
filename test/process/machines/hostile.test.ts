/** A machine that lies, and one that does not answer: each fetch ends, and nothing is left. */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, afterEach, before, describe, it } from "node:test";
import { connect } from "@nats-io/transport-node";
import { Deadline } from "../../../src/base/deadline.js";
import { limits } from "../../../src/base/limits.js";
import type { SealOfBytes } from "../../../src/bridge/link/bytes-seal.js";
import type { Hub } from "../../../src/client/hub.js";
import { addressOf } from "../../../src/os/host-memory.js";
import { memoryOf, UcxWorker } from "../../../src/ucx/ucx-worker.js";
import type { Descriptor } from "../../../src/wire/descriptor.js";
import type { LinkCall } from "../../../src/wire/link-messages.js";
import { MACHINES_VERSION } from "../../../src/wire/machines-version.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { type HostileAnswer, HostileMachine } from "../../support/machines/hostile-machine.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { hostArray, hostBundle } from "../../support/messages.js";
import { soon, until } from "../../support/until.js";

const SIZE = 1024;
/** Short, because a test waits for it to pass. Long enough for a busy computer. */
const SILENCE_MS = 10_000;
const WRONG: SealOfBytes = { nonce: 1, mac: "5a".repeat(16) };

function bytesOf(byteLength: number): Descriptor {
  const array = { dtype: "uint8", shape: [byteLength], strides: [1], byteOffset: 0 };
  const allocationByteLength = Math.ceil(byteLength / 4096) * 4096;
  return {
    ...hostArray,
    byteLength,
    allocationByteLength,
    content: { kind: "array", array: { ...array, dtype: "uint8" } },
  };
}

type SendCall = Extract<LinkCall, { readonly op: "send" }>;

describe("a bridge whose peer is hostile", { skip: skipWithoutEngines }, () => {
  let nats: TestNats;
  let machine: TestMachine;
  let hub: Hub;
  let hostile: HostileMachine;

  before(async () => {
    process.env.UCX_TLS = "tcp";
    nats = await TestNats.start();
    machine = await TestMachine.start("one", nats, {
      args: ["--announce", "*"],
      limits: { machineSilenceMs: SILENCE_MS, machineReturnMs: SILENCE_MS / 2 },
    });
    hub = await machine.connect();
    hostile = await HostileMachine.start(nats);
  });
  after(async () => {
    await hostile?.[Symbol.asyncDispose]();
    await hub?.close();
    await machine?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });
  afterEach(async () => {
    assert.deepEqual(await hub.list(), [], "something is left");
    await machine.status();
  });

  /** Answers to `export` with a descriptor, and to `send` as the test wants. */
  function serving(
    descriptor: Descriptor,
    send: (link: Parameters<HostileAnswer>[0], call: SendCall) => unknown,
    indexByteLength = 0,
  ): HostileAnswer {
    return (link, call) => {
      if (call.op === "export") return { export: 1, descriptor, indexByteLength };
      return call.op === "send" ? send(link, call) : {};
    };
  }

  /** Opens a bait on the honest machine. */
  async function openBait(
    announced: Descriptor,
    answer: HostileAnswer,
    from = hostile,
  ): Promise<unknown> {
    from.answer = answer;
    const name = await from.announce(announced);
    await until("the bait is seen", async () =>
      (await machine.status()).names.some((it) => it.name === name),
    );
    return soon("the open ends", hub.openAny(name, { from: "any" }));
  }

  /** Sends these bytes, whatever was asked for. */
  function sending(bytes: Uint8Array, seal?: SealOfBytes) {
    const memory = new Uint8Array(new ArrayBuffer(bytes.byteLength));
    memory.set(bytes);
    return async (link: Parameters<HostileAnswer>[0], { tag }: SendCall) => {
      await link.sendBytes(memoryOf(memory), tag);
      return seal ?? link.bytesSeal.seal(addressOf(memory), memory.byteLength);
    };
  }

  const neverSent = () => assert.fail("nothing may be asked for");

  it("opens an array of it that is what it claims", async () => {
    const bytes = randomBytes(SIZE);
    const copy = await openBait(bytesOf(SIZE), serving(bytesOf(SIZE), sending(bytes)));
    (copy as { close(): void }).close();
    for (const { name } of await hub.list()) await hub.remove(name);
  });

  it("refuses an array that is larger than was announced", async () => {
    const opening = openBait(bytesOf(SIZE), serving(bytesOf(2 * SIZE), neverSent));
    await assert.rejects(opening, { code: "INVALID_DESCRIPTOR", message: /"hostile".*claims/ });
  });

  it("refuses an array that is larger than the machine", async () => {
    const huge = bytesOf(2 ** 45);
    const opening = openBait(huge, serving(huge, neverSent));
    await assert.rejects(opening, { code: "OUT_OF_MEMORY" });
  });

  it("refuses an answer that is of no known form", async () => {
    const answers = [{}, { export: -1 }, "text", null, { export: 1, descriptor: {}, more: 1 }];
    for (const answer of answers)
      await assert.rejects(
        openBait(bytesOf(SIZE), () => answer),
        { code: "INVALID_MESSAGE" },
      );
  });

  it("refuses an index of a bundle that is too large, or no index", async () => {
    const bundle = hostBundle(1, 100);
    const tooLarge = serving(bundle, neverSent, 2 ** 40);
    await assert.rejects(openBait(bundle, tooLarge), { code: "INVALID_MESSAGE" });
    const garbage = serving(bundle, sending(randomBytes(100)), 100);
    await assert.rejects(openBait(bundle, garbage), { code: /^INVALID_/ });
  });

  it("refuses an index that would take the memory of the bridge, before it is parsed", async () => {
    const million = hostBundle(limits.bundleArraysMax, limits.bundleIndexBytesMax);
    const claiming = serving(million, neverSent, limits.bundleIndexBytesMax);
    const refusal = { code: "LIMIT_EXCEEDED", message: /\(bridgeIndexBytesMax\)/ } as const;
    await assert.rejects(openBait(million, claiming), refusal);
    // Few arrays, and very many short texts.
    const metadata = Object.fromEntries(Array.from({ length: 700_000 }, (_, i) => [i, ""]));
    const index = Buffer.from(JSON.stringify({ version: 1, metadata, arrays: [] }));
    const texts = hostBundle(1, index.byteLength);
    const send: Parameters<typeof serving>[1] = (link, call) => {
      const { byteOffset, byteLength } = call;
      return sending(index.subarray(byteOffset, byteOffset + byteLength))(link, call);
    };
    await assert.rejects(openBait(texts, serving(texts, send, index.byteLength)), refusal);
  });

  it("publishes no array whose bytes have another seal", async () => {
    const opening = openBait(
      bytesOf(SIZE),
      serving(bytesOf(SIZE), sending(randomBytes(SIZE), WRONG)),
    );
    await assert.rejects(opening, { code: "VERIFICATION_FAILED" });
  });

  it("refuses fewer and more bytes than it asked for", async () => {
    for (const byteLength of [0, SIZE - 1, SIZE + 1, 1 << 20]) {
      const bytes = randomBytes(byteLength);
      const opening = openBait(bytesOf(SIZE), serving(bytesOf(SIZE), sending(bytes)));
      await assert.rejects(opening, { code: "INVALID_MESSAGE" }, `${byteLength} bytes`);
    }
  });

  it("gives up bytes that do not come, even if the machine goes on to talk", async () => {
    await using talker = await HostileMachine.start(nats, "talker");
    let talk: NodeJS.Timeout | undefined;
    const talking = serving(bytesOf(SIZE), (link) => {
      const deadline = new Deadline("talk", {}, 60_000);
      talk ??= setInterval(() => link.call({ op: "hello" }, deadline).catch(() => {}), 1000);
      return new Promise(() => {});
    });
    const promising = serving(bytesOf(SIZE), () => WRONG);
    try {
      await Promise.all([
        assert.rejects(openBait(bytesOf(SIZE), talking, talker), {
          code: "PEER_GONE",
          message: /"talker": it has sent or taken nothing that it should for 10 s/,
        }),
        assert.rejects(openBait(bytesOf(SIZE), promising), {
          code: "PEER_GONE",
          message: /"hostile"/,
        }),
      ]);
    } finally {
      clearInterval(talk);
    }
  });

  it("ends a link on which more calls are made than it answers", async () => {
    const deadline = new Deadline("flood", {}, 20_000);
    using victim = await hub.create("victim", { dtype: "uint8", shape: [limits.stagingBytes] });
    await victim.publish();
    await machine.says('announced: "victim"');
    const { object } = (await hub.inspect("victim")).object;
    // WHY not before: the bridge ends a link that says nothing for a while.
    const { instance } = await instanceOfMachine();
    const link = await hostile.links.to("one", instance, deadline);
    const { export: from } = await link.call({ op: "export", name: "victim", object }, deadline);
    // Nearly all are asked for before the first is sent.
    const piece = { part: "data", byteOffset: 0, byteLength: limits.stagingBytes } as const;
    const tag = "8000000000000000";
    const calls = Array.from({ length: limits.linkCallsMax + 100 }, () =>
      link.call({ op: "send", export: from, ...piece, tag }, deadline),
    );
    const outcomes = await soon("the flood ends", Promise.allSettled(calls));
    const refused = outcomes.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
    assert.ok(refused.length > limits.linkCallsMax / 2, `${refused.length} were refused`);
    for (const { code } of refused) assert.equal(code, "PEER_GONE");
    assert.equal(link.open, false);
  });

  it("ends a link on which more messages are asked for than may be under way", async () => {
    const deadline = new Deadline("flood", {}, 20_000);
    using _writer = await hub.createChannel("flooded", { byteLength: 8 });
    await machine.says('announced: "flooded"');
    const { object } = (await hub.inspect("flooded")).object;
    // WHY not before: the bridge ends a link that says nothing for a while.
    const { instance } = await instanceOfMachine();
    const link = await hostile.links.to("one", instance, deadline);
    const { channel } = await link.call({ op: "join", name: "flooded", object }, deadline);
    const read = link.read(channel, 1, deadline);
    const again = { op: "read", channel, count: 1 } as const;
    await assert.rejects(link.call(again, deadline), { code: "IN_USE" });
    read.more(limits.carriedMessagesMax + 1);
    await assert.rejects(soon("the read ends", read.next()), { code: "PEER_GONE" });
    assert.equal(link.open, false);
  });

  it("ends a link on frames that are cut short or sealed with another key", async () => {
    const { instance } = await instanceOfMachine();
    for (const frame of [randomBytes(0), randomBytes(7), randomBytes(43), randomBytes(200)]) {
      const worker = UcxWorker.create(hostile.context);
      try {
        const ask = {
          v: MACHINES_VERSION,
          op: "link",
          machine: "hostile",
          instance: hostile.instance,
          ucx: "1.22.0",
          address: Buffer.from(worker.address).toString("base64"),
          secret: randomBytes(32).toString("base64"),
        };
        const request = Buffer.from(JSON.stringify(ask));
        const deadline = new Deadline("link", {}, 10_000);
        const reply = await hostile.store.ask(`link.${instance}`, request, deadline);
        const { address } = JSON.parse(Buffer.from(reply).toString());
        let isEnded = false;
        worker.connect(Buffer.from(address, "base64"), () => {
          isEnded = true;
        });
        const memory = new Uint8Array(new ArrayBuffer(frame.byteLength));
        memory.set(frame);
        await worker.send(memoryOf(memory), 1n);
        await until("the bridge ends the link", () => isEnded);
      } finally {
        worker.close();
      }
    }
  });

  it("answers no request that wants its answer in the bucket", async () => {
    const { instance } = await instanceOfMachine();
    const asker = await connect({ servers: nats.url });
    try {
      const subject = `cuda-ipc.cuda-ipc.link.${instance}`;
      const answers = asker.subscribe("elsewhere.>", { max: 1 });
      asker.publish(subject, "x", { reply: "$KV.cuda-ipc.name.planted" });
      asker.publish(subject, "x", { reply: "elsewhere.inbox" });
      asker.publish(subject, "x");
      // The bridge handles requests in their order, so it has handled those above.
      await asker.request(subject, "x", { timeout: 10_000 });
      assert.equal(await hostile.store.read("name.planted"), undefined);
      assert.equal(answers.getReceived(), 0);
    } finally {
      await asker.close();
    }
  });

  async function instanceOfMachine(): Promise<{ readonly instance: string }> {
    const entry = await hostile.store.read("machine.one");
    return JSON.parse(Buffer.from(entry?.value ?? []).toString());
  }
});
