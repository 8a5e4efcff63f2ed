/** A machine that lies about workers and requests: each link ends, and nothing is left. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import { limits } from "../../../src/base/limits.js";
import type { MachineLink } from "../../../src/bridge/link/machine-link.js";
import type { ChannelReader } from "../../../src/channel/channel-reader.js";
import { askForWorker } from "../../../src/client/connection/bridge-call.js";
import type { Hub } from "../../../src/client/hub.js";
import { claimOffer } from "../../../src/service/claim-offer.js";
import { encodeEnvelope, type Kind } from "../../../src/service/envelope.js";
import { type Service, serve } from "../../../src/service/service.js";
import { connectService } from "../../../src/service/service-client.js";
import type { CarriedMessage } from "../../../src/wire/carried-frames.js";
import type { LinkCall } from "../../../src/wire/link-messages.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { HostileMachine } from "../../support/machines/hostile-machine.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { channelContent } from "../../support/messages.js";
import { soon, until } from "../../support/until.js";

const BAIT = "bait";
const META = 280;

/** As a worker's replies would be. */
const replies = {
  ...channelContent,
  dtype: "uint8",
  shape: [8],
  slots: 4,
  readersMax: 1,
  slotBytes: 8,
  slotStride: 64,
  metaBytesMax: 1100,
} as const;
const claim = {
  channel: 1,
  name: `${BAIT}:w1a:0`,
  object: 5,
  content: replies,
  hello: { v: 1, depth: 2, request: { dtype: "uint8", shape: [8], metaBytesMax: META } },
} as const;
const message = {
  sequence: 1,
  byteLength: 0,
  shape: undefined,
  meta: new Uint8Array(0),
  metaIsJson: false,
  export: undefined,
} as const satisfies Omit<CarriedMessage, "kind" | "read">;

function envelope(kind: Kind, number: number): Uint8Array {
  return encodeEnvelope("x", { kind, number }, undefined, META);
}

/** What the machine sends when it is asked for messages. */
interface Lie extends Omit<CarriedMessage, "kind" | "read"> {
  readonly bytes?: Uint8Array;
  /** The numbers under which it is sent. By default it comes again. */
  readonly numbers?: readonly number[];
}

type ReadCall = Extract<LinkCall, { readonly op: "read" }>;

/** Sends the lie for a read that never ends. */
async function tell(link: MachineLink, { id }: ReadCall, lie: Lie): Promise<unknown> {
  const { bytes, numbers = [lie.sequence, lie.sequence], ...sent } = lie;
  for (const sequence of numbers) await link.sendMessage({ ...sent, read: id, sequence }, bytes);
  return new Promise(() => {});
}

describe("a bridge whose peer lies about services", { skip: skipWithoutEngines }, () => {
  let nats: TestNats;
  let machine: TestMachine;
  let hub: Hub;
  let hostile: HostileMachine;

  before(async () => {
    process.env.UCX_TLS = "tcp";
    nats = await TestNats.start();
    machine = await TestMachine.start("one", nats, {
      args: ["--announce", "*"],
      limits: { carriedUnreadMs: 4000 },
    });
    hub = await machine.connect();
    hostile = await HostileMachine.start(nats);
    await hostile.announceService(BAIT);
    await until("the bait is seen", async () => {
      const asked = await askBait().catch((error) => error);
      return asked.code === "INVALID_MESSAGE";
    });
  });
  after(async () => {
    await hostile?.[Symbol.asyncDispose]();
    await hub?.close();
    await machine?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });
  afterEach(async () => {
    await until("nothing is left", async () => (await hub.list()).length === 0);
    assert.ok(process.kill(machine.bridgePid, 0), "the bridge is there");
  });

  it("offers no worker that is not what it claims", async () => {
    const { hello, content } = claim;
    const lies: readonly (readonly [string, unknown])[] = [
      ["INVALID_MESSAGE", {}],
      ["INVALID_MESSAGE", { ...claim, more: 1 }],
      ["INVALID_MESSAGE", { ...claim, name: "victim" }],
      ["INVALID_MESSAGE", { ...claim, name: "other:w1a:0" }],
      ["INVALID_MESSAGE", { ...claim, name: `${BAIT}:w1a:0:req` }],
      ["INVALID_MESSAGE", { ...claim, content: { ...content, slotBytes: 9 } }],
      ["INVALID_MESSAGE", { ...claim, content: { ...content, slots: 2 } }],
      ["INVALID_MESSAGE", { ...claim, content: { ...content, readersMax: 2 } }],
      ["MESSAGE_TOO_LARGE", { ...claim, content: { ...content, metaBytesMax: 30 } }],
      ["PROTOCOL_MISMATCH", { ...claim, hello: null }],
      ["PROTOCOL_MISMATCH", { ...claim, hello: { ...hello, v: 2 } }],
      ["PROTOCOL_MISMATCH", { ...claim, hello: { ...hello, depth: 10 ** 6 } }],
      ["OUT_OF_MEMORY", { ...claim, content: large(2 ** 44) }],
    ];
    for (const [code, lie] of lies) {
      hostile.answer = (_, call) => (call.op === "claim" ? lie : {});
      await assert.rejects(soon("the bridge answers", askBait()), { code }, JSON.stringify(lie));
    }
  });

  it("gives back a worker that was claimed too late", async () => {
    let isAsked = false;
    let answer = () => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const left = new Promise<void>((resolve) => {
      hostile.answer = async (_, call) => {
        if (call.op === "leave") resolve();
        if (call.op !== "claim") return {};
        isAsked = true;
        await answered;
        return claim;
      };
    });
    const stop = new AbortController();
    const asking = askBait(stop.signal);
    await until("the machine is asked", () => isAsked);
    stop.abort();
    await assert.rejects(asking, { code: "ABORTED" });
    answer();
    await soon("the worker is given back", left);
  });

  it("ends a link on which replies are not what they can be", async () => {
    const lies: readonly Lie[] = [
      { ...message, meta: envelope("reply", 77) },
      { ...message, meta: envelope("request", 1) },
      { ...message, meta: Uint8Array.of(99, ...new Uint8Array(23)) },
      { ...message, meta: new Uint8Array(3) },
      { ...message, meta: new Uint8Array(2000) },
      { ...message, meta: envelope("reply", 1), byteLength: 9 },
      { ...message, meta: envelope("reply", 1), shape: [3, 3] },
      { ...message, meta: envelope("reply", 1), byteLength: 4, bytes: new Uint8Array(3) },
      { ...message, metaIsJson: true },
    ];
    for (const lie of lies) await withClient(lie, JSON.stringify(lie));
  });

  it("gives up a worker whose reply comes again", async () => {
    const again = { ...message, meta: envelope("reply", 1), numbers: [3, 3] };
    answerWith((link, call) => tell(link, call, again));
    await withSilentClient(async (replies) => {
      await assert.rejects(soon("the worker is given up", drain(replies)), { code: "PEER_GONE" });
      await machine.says("message 3 comes after 3");
    });
  });

  it("ends the link to a machine that sends messages unasked", async () => {
    const numbers = Array.from({ length: 2 * limits.carriedMessagesMax }, (_, at) => at + 1);
    const unasked = { ...message, meta: envelope("reply", 1), numbers };
    const ended = new Promise<unknown>((resolve) => {
      answerWith((link, call) => {
        link.onEnd(resolve);
        return tell(link, call, unasked);
      });
    });
    await withSilentClient(async (replies) => {
      // WHY before a reply is taken: the bridge asks for more messages as long as there is room.
      await soon("the link ends", ended);
      await assert.rejects(soon("the worker is given up", drain(replies)), { code: "PEER_GONE" });
      await machine.says("it was not asked for");
    });
  });

  it("gives up a worker whose machine never ends the replies, once the client is gone", async () => {
    answerWith(() => new Promise(() => {}));
    await withSilentClient(async () => {
      assert.equal((await hub.list()).length, 2);
    });
    await machine.says(`no longer used: a worker of service "${BAIT}"`);
  });

  it("serves no other workers than may be, and each once", async () => {
    const deadline = new Deadline("claim", {}, 30_000);
    const { instance } = JSON.parse(
      Buffer.from((await hostile.store.read("machine.one"))?.value ?? []).toString(),
    );
    const link = await hostile.links.to("one", instance, deadline);
    const call = (service: string) => link.call({ op: "claim", service, except: [] }, deadline);
    await assert.rejects(call("nothing"), { code: "NOT_FOUND" });
    await assert.rejects(call("../x"), { code: "INVALID_NAME" });
    const service = await echo();
    try {
      hostile.answer = () => new Promise(() => {});
      const { channel, ...claimed } = await call("echo");
      assert.match(claimed.name, /^echo:w/);
      await link.call({ op: "attach", channel, requests: 1 }, deadline);
      const again = link.call({ op: "attach", channel, requests: 1 }, deadline);
      await assert.rejects(again, { code: "INVALID_MESSAGE" });
      const wrong = link.call({ op: "attach", channel: 999, requests: 1 }, deadline);
      await assert.rejects(wrong, { code: "NOT_FOUND" });
      await link.call({ op: "leave", channel }, deadline);
      await until("the worker is free again", () => service.clients === 0);
    } finally {
      await service.close();
    }
  });

  it("lets a worker go on when requests of another machine make no sense", async () => {
    const deadline = new Deadline("claim", {}, 30_000);
    const { instance } = JSON.parse(
      Buffer.from((await hostile.store.read("machine.one"))?.value ?? []).toString(),
    );
    const link = await hostile.links.to("one", instance, deadline);
    const service = await echo();
    try {
      const lies = [
        { ...message, sequence: 0, meta: envelope("reply", 1) },
        { ...message, sequence: 0, meta: new Uint8Array(24).fill(255) },
        { ...message, sequence: 0 },
        { ...message, sequence: 0, meta: envelope("request", 1), byteLength: 99 },
        { ...message, sequence: 0, meta: envelope("request", 1), export: 7, byteLength: 8 },
        undefined,
      ];
      for (const lie of lies) {
        hostile.answer = (from, call) => {
          if (call.op === "read") return lie === undefined ? {} : tell(from, call, lie);
          if (call.op === "send") throw new RangeError("no such bytes");
          return {};
        };
        const channel = await claimEcho(link);
        await until("the worker has a client", () => service.clients === 1);
        await link.call({ op: "attach", channel, requests: 1 }, deadline);
        await until("the link has ended", () => service.clients === 0);
      }
      const near = connectService(hub, "echo");
      try {
        using reply = await near.request(undefined, { meta: "still there" });
        assert.equal(reply.json, "still there");
      } finally {
        await near.close();
      }
    } finally {
      await service.close();
    }
  });

  function askBait(signal?: AbortSignal) {
    return askForWorker(hub.socketPath, BAIT, [], new Deadline("ask", { signal }, 20_000));
  }

  /** Claims the worker of the hostile machine, sends it a request, and takes no reply. */
  async function withSilentClient(use: (replies: ChannelReader) => Promise<void>): Promise<void> {
    const offer = await askBait();
    const { requests, replies } = await claimOffer(hub, offer, {}, new AbortController().signal);
    try {
      using slot = await requests.loan();
      slot.commit({ byteLength: 0, meta: envelope("request", 1) });
      await use(replies);
    } finally {
      requests.close();
      replies.close();
    }
    await until("nothing is left", async () => (await hub.list()).length === 0);
  }

  async function drain(replies: ChannelReader): Promise<void> {
    for await (const _ of replies);
  }

  /** A worker of the honest machine. */
  async function echo(): Promise<Service> {
    const request = { dtype: "uint8", shape: [8] } as const;
    const service = await serve(hub, "echo", { request }, (it) => ({ meta: it.json ?? null }));
    return service as unknown as Service;
  }

  /** Sends a request to the hostile machine, which sends a lie as the reply. */
  async function withClient(lie: Lie, what: string): Promise<void> {
    answerWith((link, call) => tell(link, call, lie));
    const client = connectService(hub, BAIT, { machine: "any", policy: "fail" });
    try {
      const asking = client.request(undefined, { meta: 1, timeoutMs: 25_000 });
      await assert.rejects(soon("the request ends", asking), { code: "PEER_GONE" }, what);
    } finally {
      await client.close();
    }
    await until("nothing is left of it", async () => (await hub.list()).length === 0);
  }

  /** Lets the hostile machine offer a worker, and reply as it wants once it has a request. */
  function answerWith(reply: (link: MachineLink, call: ReadCall) => Promise<unknown>): void {
    let onRead = () => {};
    const isRead = new Promise<void>((resolve) => {
      onRead = resolve;
    });
    hostile.answer = async (link, call) => {
      if (call.op === "claim") return claim;
      if (call.op === "attach") {
        const read = link.read(call.requests, 1, new Deadline("read", {}, 20_000));
        read.next().then(onRead, () => {});
      }
      if (call.op !== "read") return {};
      await isRead;
      return reply(link, call);
    };
  }

  /** Claims the worker of the honest machine, which makes a new offer after each client. */
  async function claimEcho(link: MachineLink): Promise<number> {
    const deadline = new Deadline("claim", {}, 30_000);
    let channel = 0;
    await until("the worker has an offer", async () => {
      const claimed = link.call({ op: "claim", service: "echo", except: [] }, deadline);
      channel = await claimed.then((it) => it.channel).catch(() => 0);
      return channel !== 0;
    });
    return channel;
  }

  function large(byteLength: number) {
    return { ...replies, shape: [byteLength], slotBytes: byteLength, slotStride: byteLength };
  }
});
