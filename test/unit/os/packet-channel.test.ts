import assert from "node:assert/strict";
import { openSync } from "node:fs";
import { constants } from "node:os";
import { beforeEach, describe, it } from "node:test";
import { hasCode, type SystemError } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { releaseAll } from "../../../src/base/scope.js";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { OwnedFd, openFdCount } from "../../../src/os/owned-fd.js";
import { PacketChannel, type PacketHandler } from "../../../src/os/packet-channel.js";
import { type Packet, SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { until } from "../../support/until.js";

const FLOODS = new URL("./actors/floods-descriptors.js", import.meta.url);
const ETOOMANYREFS = 109;
const BIG = new Uint8Array(60_000);

describe("PacketChannel", () => {
  checkLeaks(() => {
    channel.close();
    peer.close();
  });
  let channel: PacketChannel;
  let peer: SeqpacketSocket;
  let packets: string[];
  let ends: unknown[];
  let onPacket: (packet: Packet) => void;

  const handler: PacketHandler = {
    onPacket: (packet) => onPacket(packet),
    onEnd: (reason) => ends.push(reason),
  };

  function open(): void {
    const [own, other] = SeqpacketSocket.pair();
    peer = other;
    channel = new PacketChannel(own, handler);
  }

  beforeEach(() => {
    packets = [];
    ends = [];
    onPacket = ({ bytes, fds }) => {
      packets.push(Buffer.from(bytes).toString());
      releaseAll(fds.map((fd) => () => fd.close()));
    };
    open();
  });

  /** Sends until messages wait. */
  function fill(): void {
    while (channel.queuedMessages === 0) channel.send(BIG);
  }

  function drain(): number {
    let count = 0;
    for (
      let packet = peer.tryReceive();
      packet !== undefined && packet !== "end";
      packet = peer.tryReceive()
    ) {
      releaseAll(packet.fds.map((fd) => () => fd.close()));
      count += 1;
    }
    return count;
  }

  it("passes messages on in order, also more than fit into one turn", async () => {
    const sent = Array.from({ length: 200 }, (_, i) => `message ${i}`);
    for (const text of sent) assert.ok(peer.trySend(Buffer.from(text)));
    await until("all have arrived", () => packets.length === sent.length);
    assert.deepEqual(packets, sent);
  });

  it("reports the end once, after the last message", async () => {
    peer.trySend(Buffer.from("last"));
    peer.close();
    await until("the end is reported", () => ends.length > 0);
    assert.deepEqual([packets, ends, channel.open], [["last"], [undefined], false]);
  });

  it("does not report its own close", async () => {
    channel.close();
    peer.close();
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    assert.deepEqual(ends, []);
    assert.throws(
      () => channel.send(Buffer.from("x")),
      (error) => hasCode(error, "CLOSED"),
    );
  });

  it("ends with the error of its handler", async () => {
    const failure = new Error("no");
    onPacket = () => {
      throw failure;
    };
    peer.trySend(Buffer.from("x"));
    await until("the end is reported", () => ends.length > 0);
    assert.deepEqual(ends, [failure]);
  });

  it("queues messages that the other side does not read, with duplicated descriptors, and sends them in order", async () => {
    fill();
    const before = openFdCount();
    const fd = new OwnedFd(openSync("/dev/null", "r"));
    channel.send(Buffer.from("with a descriptor"), [fd, fd]);
    fd.close();
    assert.equal(openFdCount(), before + 2);
    let found: string | undefined;
    await until("the message arrives", () => {
      for (
        let packet = peer.tryReceive();
        packet !== undefined && packet !== "end";
        packet = peer.tryReceive()
      ) {
        if (packet.fds.length > 0)
          found = `${Buffer.from(packet.bytes).toString()} ${packet.fds.length}`;
        releaseAll(packet.fds.map((fd) => () => fd.close()));
      }
      return found !== undefined;
    });
    assert.equal(found, "with a descriptor 2");
    await until("the duplicates are closed", () => openFdCount() === before);
  });

  it("sends messages in order once its user has fewer descriptors in flight", async () => {
    const fd = new OwnedFd(openSync("/dev/null", "r"));
    const before = openFdCount();
    let refusals = 0;
    const undo = interceptLibc((call) => {
      if (call !== "sendmsg") return undefined;
      refusals += 1;
      return ETOOMANYREFS;
    });
    try {
      channel.send(Buffer.from("with a descriptor"), [fd]);
      channel.send(Buffer.from("second"));
      fd.close();
      // Each attempt but the first follows a pause. The event loop continues meanwhile.
      await until("it has tried again", () => refusals > 3);
      assert.deepEqual([channel.isInFlightLimited, channel.queuedMessages], [true, 2]);
    } finally {
      undo();
    }
    const found: string[] = [];
    await until("both have come", () => {
      const packet = peer.tryReceive();
      if (packet === undefined || packet === "end") return found.length === 2;
      found.push(`${Buffer.from(packet.bytes).toString()} ${packet.fds.length}`);
      releaseAll(packet.fds.map((fd) => () => fd.close()));
      return false;
    });
    assert.deepEqual(found, ["with a descriptor 1", "second 0"]);
    await until("nothing waits", () => !channel.isInFlightLimited);
    assert.deepEqual([openFdCount(), ends], [before - 1, []]);
  });

  it("waits for a real user whose descriptors in flight are too many", {
    skip: skipUnlessRoot,
  }, async () => {
    // Nobody else uses this user, and root may have any number in flight.
    const user = { uid: 12_387, gid: 12_387 };
    await using actor = new Actor(FLOODS, { user, fdsMax: 200 });
    assert.deepEqual(await actor.says(), { refused: true, limited: true, arrived: false });
    actor.goOn();
    assert.deepEqual(await actor.says(), { found: "late 1" });
    assert.equal(await actor.exited(), 0, actor.complaint);
  });

  it("tries no more once it is closed", async () => {
    using fd = new OwnedFd(openSync("/dev/null", "r"));
    const undo = interceptLibc((call) => (call === "sendmsg" ? ETOOMANYREFS : undefined));
    try {
      channel.send(Buffer.from("x"), [fd]);
      channel.close();
    } finally {
      undo();
    }
    assert.deepEqual([channel.isInFlightLimited, ends], [false, []]);
  });

  it("receives while its own messages wait", async () => {
    fill();
    peer.trySend(Buffer.from("from the peer"));
    await until("it arrives", () => packets.length === 1);
  });

  it("throws LIMIT_EXCEEDED if too many messages wait, and keeps no duplicates of the refused one", () => {
    fill();
    while (channel.queuedMessages < limits.sendQueueMessagesMax) channel.send(Buffer.from("x"));
    using fd = new OwnedFd(openSync("/dev/null", "r"));
    const before = openFdCount();
    assert.throws(
      () => channel.send(Buffer.from("x"), [fd]),
      (error) => hasCode(error, "LIMIT_EXCEEDED"),
    );
    assert.equal(openFdCount(), before);
  });

  it("closes the duplicates of queued messages when it is closed", () => {
    fill();
    using fd = new OwnedFd(openSync("/dev/null", "r"));
    const before = openFdCount();
    for (let i = 0; i < 10; i += 1) channel.send(Buffer.from("x"), [fd]);
    assert.equal(openFdCount(), before + 10);
    channel.close();
    assert.equal(openFdCount(), before - 1, "the socket is closed too");
  });

  it("closes its duplicates if the next one fails", () => {
    fill();
    using fd = new OwnedFd(openSync("/dev/null", "r"));
    const closed = new OwnedFd(openSync("/dev/null", "r"));
    closed.close();
    const before = openFdCount();
    assert.throws(
      () => channel.send(Buffer.from("x"), [fd, fd, closed]),
      (error) => hasCode(error, "CLOSED"),
    );
    assert.equal(openFdCount(), before);
  });

  it("does not send faster than it reads", async () => {
    fill();
    for (let i = 0; i < 500; i += 1) channel.send(Buffer.from("request"));
    let most = 0;
    while (channel.queuedMessages > 0) {
      drain();
      const before = channel.queuedMessages;
      await new Promise((resolve) => setImmediate(resolve));
      most = Math.max(most, before - channel.queuedMessages);
    }
    assert.ok(most > 0 && most <= 64, `${most} messages in one turn`);
  });

  it("reports a normal end, after the last messages, if the other side hangs up while messages wait", async () => {
    fill();
    for (let i = 0; i < 100; i += 1) peer.trySend(Buffer.from("last words"));
    peer.close();
    await until("the end is reported", () => ends.length > 0);
    assert.deepEqual([packets.length, ends], [100, [undefined]]);
  });

  it("sends all queued messages", async () => {
    let sent = 0;
    while (channel.queuedMessages < 200) {
      channel.send(BIG);
      sent += 1;
    }
    let count = 0;
    await until("all have arrived", () => {
      count += drain();
      return count === sent;
    });
    assert.equal(channel.queuedMessages, 0);
  });

  it("receives neither messages nor the end while it is paused, and everything after resume()", async () => {
    channel.pause();
    peer.trySend(Buffer.from("x"));
    peer.close();
    for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([packets, ends, channel.open], [[], [], true]);
    channel.resume();
    await until("the end is reported", () => ends.length > 0);
    assert.deepEqual([packets, ends], [["x"], [undefined]]);
  });

  it("stops in the middle of a turn if its handler pauses it", async () => {
    const take = onPacket;
    onPacket = (packet) => {
      take(packet);
      channel.pause();
    };
    for (const text of ["1", "2", "3"]) peer.trySend(Buffer.from(text));
    for (const count of [1, 2, 3]) {
      await until("one has arrived", () => packets.length > count - 1);
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      assert.equal(packets.length, count);
      channel.resume();
    }
  });

  it("sends queued messages while it is paused", async () => {
    fill();
    channel.pause();
    peer.trySend(Buffer.from("not read"));
    await until("everything is sent", () => {
      drain();
      return channel.queuedMessages === 0;
    });
    assert.deepEqual(packets, []);
  });

  it("ends and reports the error if its socket cannot be closed", async () => {
    const { number } = channel.socket.fd;
    const undo = interceptLibc((call, [fd]) =>
      call === "close" && fd === number ? constants.errno.EIO : undefined,
    );
    try {
      peer.close();
      await until("the end is reported", () => ends.length > 0);
    } finally {
      undo();
    }
    assert.equal((ends[0] as SystemError).errnoName, "EIO");
  });
});
