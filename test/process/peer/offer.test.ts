import assert from "node:assert/strict";
import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { beforeEach, describe, it } from "node:test";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import { DeviceArray } from "../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../src/gpu/device.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { offer } from "../../../src/peer/offer.js";
import { receiveOffer } from "../../../src/peer/receive-offer.js";
import { Actor } from "../../support/actor.js";
import { Disposables } from "../../support/disposables.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon, until } from "../../support/until.js";

const OFFERS = new URL("./actors/offers.js", import.meta.url);
const RECEIVES = new URL("./actors/receives.js", import.meta.url);

const code =
  (wanted: ErrorCode, words = /./) =>
  (error: unknown) =>
    hasCode(error, wanted) && words.test(error.message);
const good = { elements: 262_144, wrong: 0 };

describe("offers between processes", () => {
  checkLeaks();

  it("reach consumers that connect early or late, until enough have acknowledged", async () => {
    using folder = new TestFolder();
    const path = folder.file("frames.sock");
    await using early = new Actor(RECEIVES, { args: [path, "acknowledge"] });
    assert.equal(await early.says(), "here");
    await using producer = new Actor(OFFERS, { args: [path, "2"] });
    assert.equal(await producer.says(), "offered");
    assert.deepEqual(await early.says(), good);
    await using silent = new Actor(RECEIVES, { args: [path, "never"] });
    assert.deepEqual([await silent.says(), await silent.says()], ["here", good]);
    assert.equal(await silent.exited(), 0);
    await using late = new Actor(RECEIVES, { args: [path, "acknowledge"] });
    assert.deepEqual([await late.says(), await late.says()], ["here", good]);
    assert.deepEqual(await producer.says(), { acknowledged: 2 });
    for (const actor of [early, late, producer])
      assert.equal(await actor.exited(), 0, actor.complaint);
    assert.equal(existsSync(path), false);
    assert.equal(existsSync(`${path}.lock`), false);
  });

  it("of a killed producer give PEER_GONE, and can be made again", async () => {
    using folder = new TestFolder();
    const path = folder.file("frames.sock");
    await assert.rejects(
      receiveOffer(path, { timeoutMs: 5 }),
      code("TIMEOUT", /no such socket. Check that the other process runs/),
    );
    await using killed = new Actor(OFFERS, { args: [path, "1"] });
    assert.equal(await killed.says(), "offered");
    killed.kill("SIGKILL");
    await killed.exited();
    assert.ok(existsSync(path));
    await assert.rejects(receiveOffer(path, { timeoutMs: 5 }), code("PEER_GONE", /nobody listens/));
    await using waiting = new Actor(RECEIVES, { args: [path, "acknowledge"] });
    assert.equal(await waiting.says(), "here");
    await using next = new Actor(OFFERS, { args: [path, "1"] });
    assert.equal(await next.says(), "offered");
    assert.deepEqual(await waiting.says(), good);
    assert.deepEqual(await next.says(), { acknowledged: 1 });
  });
});

describe("offer and receiveOffer", () => {
  let made = new Disposables();
  let path: string;
  let array: DeviceArray<"int32">;
  checkLeaks(() => made.end());
  beforeEach(async () => {
    made = new Disposables();
    path = made.add(new TestFolder()).file("x.sock");
    const device = made.add(Device.open("host"));
    array = made.add(DeviceArray.allocate(device, { dtype: "int32", shape: [3] }));
    await array.write([1, 2, 3]);
  });

  it("map the same memory, which stays when the offer ends", async () => {
    await using offered = offer(path, array);
    using received = await receiveOffer(path, { access: "read-write" });
    await received.array.expectDType("int32").write([4, 5, 6]);
    assert.deepEqual([...(await array.read())], [4, 5, 6]);
    offered.close();
    offered.close();
    assert.deepEqual([...(await received.array.expectDType("int32").read())], [4, 5, 6]);
    await until("the producer is seen to be gone", () => {
      try {
        received.acknowledge();
        return false;
      } catch (error) {
        return hasCode(error, "PEER_GONE");
      }
    });
  });

  it("count each consumer once, and end waits for that count", async () => {
    await using offered = offer(path, array.buffer);
    using one = await receiveOffer(path);
    one.acknowledge();
    one.acknowledge();
    await soon("one has acknowledged", offered.acknowledged());
    const two = offered.acknowledged(2);
    await assert.rejects(offered.acknowledged(2, { timeoutMs: 5 }), {
      code: "TIMEOUT",
      message: /^Cannot get 2 acknowledgements at .+: not done within 5 ms; 1 arrived$/,
    });
    await assert.rejects(offered.acknowledged(2, { signal: AbortSignal.abort() }), code("ABORTED"));
    await assert.rejects(offered.acknowledged(0), RangeError);
    assert.equal(offered.acknowledgedCount, 1);
    using other = await receiveOffer(path);
    other.acknowledge();
    await soon("two have", two);
    const three = offered.acknowledged(3);
    offered.close();
    await assert.rejects(three, code("CLOSED"));
    await assert.rejects(offered.acknowledged(3), code("CLOSED"));
    await offered.acknowledged(2);
  });

  it("count a consumer once if it acknowledges repeatedly", async () => {
    await using offered = offer(path, array);
    const eager = SeqpacketSocket.connect(path);
    for (let i = 0; i < 3; i += 1) eager.trySend(Buffer.from('{"v":1,"op":"acknowledge"}'));
    await soon("it has acknowledged", offered.acknowledged());
    using other = await receiveOffer(path);
    other.acknowledge();
    await soon("two have", offered.acknowledged(2));
    assert.equal(offered.acknowledgedCount, 2);
    for (
      let packet = eager.tryReceive();
      packet !== undefined && packet !== "end";
      packet = eager.tryReceive()
    ) {
      for (const fd of packet.fds) fd.close();
    }
    eager.close();
  });

  it("are read-only if they are offered so", async () => {
    await using _offered = offer(path, array, { access: "read" });
    await assert.rejects(receiveOffer(path, { access: "read-write" }), code("READ_ONLY"));
    using received = await receiveOffer(path);
    assert.deepEqual([...(await received.array.expectDType("int32").read())], [1, 2, 3]);
  });

  it("refuse a path that another offer or a file uses", async () => {
    const offered = offer(path, array);
    assert.throws(() => offer(path, array), code("NAME_TAKEN"));
    offered.close();
    writeFileSync(path, "precious");
    assert.throws(() => offer(path, array), code("FILE_EXISTS"));
    assert.equal(existsSync(`${path}.lock`), false);
    assert.throws(() => offer(`/tmp/${"x".repeat(120)}`, array), code("SOCKET_PATH_TOO_LONG"));
    assert.throws(() => offer(`${path}2`, {} as DeviceArray), TypeError);
  });

  it("end a wait when its signal aborts", async () => {
    const controller = new AbortController();
    const receiving = receiveOffer(path, { signal: controller.signal });
    controller.abort();
    await assert.rejects(receiving, code("ABORTED"));
    await assert.rejects(receiveOffer(path, { device: {} as Device }), TypeError);
  });

  it("disconnect a consumer that breaks the protocol", async () => {
    await using offered = offer(path, array);
    const socket = SeqpacketSocket.connect(path);
    socket.trySend(Buffer.from('{"v":1,"op":"bye"}'));
    let last = "";
    await until("it hangs up", () => {
      const packet = socket.tryReceive();
      if (packet === undefined) return false;
      if (packet === "end") return true;
      last = Buffer.from(packet.bytes).toString();
      for (const fd of packet.fds) fd.close();
      return false;
    });
    assert.match(last, /INVALID_MESSAGE/);
    socket.close();
    assert.equal(offered.acknowledgedCount, 0);
  });

  for (const said of [
    "{",
    '{"v":1,"ok":true}',
    '{"v":9}',
    '{"v":1,"ok":true,"access":"read","descriptor":{"version":1}}',
  ]) {
    it(`refuse a producer that says ${said}`, async () => {
      const listener = SeqpacketListener.listen(path);
      const receiving = receiveOffer(path);
      let socket: SeqpacketSocket | undefined;
      await until("the consumer is there", () => {
        socket = listener.tryAccept();
        return socket !== undefined;
      });
      socket?.trySend(Buffer.from(said), [socket.fd]);
      await assert.rejects(
        receiving,
        (error) => hasCode(error, "INVALID_MESSAGE") || hasCode(error, "PROTOCOL_MISMATCH"),
      );
      socket?.close();
      listener.close();
    });
  }

  const skip = process.geteuid?.() !== 0 && "only root can be another user";
  it("serve no other user, and trust no other user's producer", { skip }, async () => {
    await using _offered = offer(path, array);
    chmodSync(path, 0o666);
    chmodSync(path.replace(/\/[^/]*$/, ""), 0o711);
    process.seteuid?.(12_345);
    let socket: SeqpacketSocket;
    try {
      socket = SeqpacketSocket.connect(path);
      await assert.rejects(receiveOffer(path), code("UNTRUSTED_PEER"));
    } finally {
      process.seteuid?.(0);
    }
    let last = "";
    await until("it hangs up", () => {
      const packet = socket.tryReceive();
      if (packet !== undefined && packet !== "end") last = Buffer.from(packet.bytes).toString();
      return packet === "end";
    });
    assert.match(last, /UNTRUSTED_PEER/);
    socket.close();
  });
});
