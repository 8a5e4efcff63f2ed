import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { fstatSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Deadline } from "../../../src/base/deadline.js";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { releaseAll } from "../../../src/base/scope.js";
import { ACK, ASK, type BatchItem, END, itemPackets } from "../../../src/os/batch-layout.js";
import { receiveBatches, sendBatches } from "../../../src/os/fd-batches.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { type OwnedFd, openFdCount } from "../../../src/os/owned-fd.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { soon, until } from "../../support/until.js";

const SENDER = fileURLToPath(new URL("./actors/sends-batches.js", import.meta.url));

const deadline = (options = {}) => new Deadline("hand over", options, 30_000);
const text = (content: string, fds: readonly OwnedFd[] = []): BatchItem => ({ bytes: Buffer.from(content), fds });

function closeAll(items: readonly BatchItem[]): void {
  releaseAll(items.flatMap(({ fds }) => fds).map((fd) => () => fd.close()));
}

function inodes(fds: readonly OwnedFd[]): number[] {
  return fds.map((fd) => fstatSync(fd.number).ino);
}

describe("sendBatches and receiveBatches", () => {
  checkLeaks(() => {
    one.close();
    other.close();
  });
  let one: SeqpacketSocket;
  let other: SeqpacketSocket;

  function open(): void {
    [one, other] = SeqpacketSocket.pair();
  }

  /** What is in the socket's queue: its descriptors are counted and closed. */
  function read(): { messages: number; fds: number } {
    const found = { messages: 0, fds: 0 };
    for (let packet = other.tryReceive(); packet !== undefined && packet !== "end"; packet = other.tryReceive()) {
      found.messages += 1;
      found.fds += packet.fds.length;
      releaseAll(packet.fds.map((fd) => () => fd.close()));
    }
    return found;
  }

  it("hand over items of any length with any number of descriptors, in order, and leave the sockets usable", async () => {
    open();
    const files = Array.from({ length: 5 }, (_, i) => createMemoryFile(`test ${i}`, 4096));
    const many = Array.from({ length: 600 }, (_, i) => files[i % 5] as OwnedFd);
    const big = new Uint8Array(300_000).map((_, i) => i % 251);
    const items = [
      text("first", files),
      text(""),
      { bytes: new Uint8Array(0), fds: many },
      { bytes: big, fds: many.slice(0, 254) },
      { bytes: big.slice(0, limits.messageBytesMax - 9), fds: many.slice(0, 1) },
      text("last"),
    ];
    // WHY sent at once after the end: what follows belongs to the caller and not to the exchange.
    const receiving = receiveBatches(other, deadline()).then((received) => {
      other.trySend(Buffer.from("ready"));
      return received;
    });
    await soon("all is sent", sendBatches(one, items, deadline()));
    const received = await soon("all is received", receiving);
    assert.deepEqual(
      received.map(({ bytes, fds }) => [Buffer.from(bytes).toString("hex"), inodes(fds)]),
      items.map(({ bytes, fds }) => [Buffer.from(bytes).toString("hex"), inodes(fds)]),
    );
    closeAll(received);
    assert.ok(files.every((fd) => !fd.closed));
    closeAll([text("", files)]);
    const packet = one.tryReceive();
    assert.ok(packet !== undefined && packet !== "end");
    assert.equal(Buffer.from(packet.bytes).toString(), "ready");
  });

  it("hand over what one end says and then what the other does, on the same sockets", async () => {
    open();
    const first = receiveBatches(other, deadline());
    await soon("sent", sendBatches(one, [text("records")], deadline()));
    const answer = receiveBatches(one, deadline());
    assert.equal(Buffer.from((await soon("received", first))[0]?.bytes ?? []).toString(), "records");
    await soon("answered", sendBatches(other, [text("ready")], deadline()));
    assert.equal(Buffer.from((await soon("received", answer))[0]?.bytes ?? []).toString(), "ready");
  });

  it("leave in the socket what comes after the end", async () => {
    open();
    for (const bytes of [END, Buffer.from("ready")]) one.trySend(bytes);
    assert.deepEqual(await soon("all is received", receiveBatches(other, deadline())), []);
    assert.deepEqual(read(), { messages: 1, fds: 0 });
  });

  it("have no more than one message's worth of descriptors under way", async () => {
    open();
    using file = createMemoryFile("test", 4096);
    const items = Array.from({ length: 1000 }, () => text("x", [file]));
    const sending = sendBatches(one, items, deadline());
    for (const round of [253, 253, 253, 241]) {
      let found = { messages: 0, fds: 0 };
      await until("the sender waits", () => {
        const { messages, fds } = read();
        found = { messages: found.messages + messages, fds: found.fds + fds };
        return found.messages > round;
      });
      assert.deepEqual(found, { messages: round + 1, fds: round });
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
      assert.deepEqual(read(), { messages: 0, fds: 0 });
      other.trySend(ACK);
    }
    await soon("all is sent", sending);
  });

  it("send more than fits into the socket, once the receiver reads", async () => {
    open();
    // More packets than a channel lets wait.
    const bytes = new Uint8Array(80_000_000).fill(7);
    const sending = sendBatches(one, [{ bytes, fds: [] }], deadline());
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    const [received] = await soon("all is received", receiveBatches(other, deadline()));
    await sending;
    assert.ok(received !== undefined && Buffer.compare(received.bytes, bytes) === 0);
  });

  it("end with TIMEOUT or ABORTED, closing the socket and all that had come", async () => {
    open();
    using file = createMemoryFile("test", 4096);
    const controller = new AbortController();
    const receiving = receiveBatches(other, deadline({ signal: controller.signal }));
    const sending = sendBatches(one, sendThenStall(controller), deadline());
    await assert.rejects(soon("receiving ends", receiving), (error) => hasCode(error, "ABORTED"));
    await assert.rejects(soon("sending ends", sending), (error) => hasCode(error, "PEER_GONE"));
    assert.deepEqual([one.fd.closed, other.fd.closed], [true, true]);

    function* sendThenStall(abort: AbortController): Generator<BatchItem> {
      for (let i = 0; i < 600; i += 1) yield text("x", [file]);
      abort.abort();
      yield text("x", [file]);
    }
  });

  it("end the sender with TIMEOUT where the receiver does not read", async () => {
    open();
    using file = createMemoryFile("test", 4096);
    const items = Array.from({ length: 300 }, () => text("x", [file]));
    await assert.rejects(sendBatches(one, items, deadline({ timeoutMs: 50 })), (error) => hasCode(error, "TIMEOUT"));
    assert.equal(one.fd.closed, true);
    read();
  });

  it("end with what the items threw", async () => {
    open();
    const failure = new Error("no");
    function* items(): Generator<BatchItem> {
      yield text("x");
      throw failure;
    }
    const receiving = receiveBatches(other, deadline());
    await assert.rejects(sendBatches(one, items(), deadline()), failure);
    await assert.rejects(soon("receiving ends", receiving), (error) => hasCode(error, "PEER_GONE"));
  });

  it("end the sender with INVALID_MESSAGE where the receiver says anything else", async () => {
    for (const said of [ASK, Uint8Array.of(5, 5), Buffer.from("{}")]) {
      open();
      other.trySend(said);
      await assert.rejects(soon("sending ends", sendBatches(one, [text("x")], deadline())), (error) =>
        hasCode(error, "INVALID_MESSAGE"),
      );
      read();
      other.close();
    }
  });

  const twoFds = (file: OwnedFd) => [...itemPackets(text("x", [file, file]))][0]?.bytes ?? new Uint8Array(0);
  const refused: [string, (file: OwnedFd) => [Uint8Array, OwnedFd[]][]][] = [
    ["a packet of no kind", () => [[Uint8Array.of(9), []]]],
    ["an answer", () => [[ACK, []]]],
    ["an item that is cut off", () => [[Uint8Array.of(1, 0, 0), []]]],
    ["a question with more to it", () => [[Uint8Array.of(3, 0), []]]],
    ["more descriptors than announced", (file) => [[twoFds(file), [file, file, file]]]],
    [
      "more descriptors later",
      (file) => [
        [twoFds(file), [file]],
        [Uint8Array.of(2), [file, file]],
      ],
    ],
    ["more bytes than announced", (file) => [[Buffer.concat([twoFds(file), Buffer.of(1)]), [file, file]]]],
    ["more without an item", (file) => [[Uint8Array.of(2), [file]]]],
    [
      "a packet that brings nothing",
      (file) => [
        [twoFds(file), [file]],
        [Uint8Array.of(2), []],
      ],
    ],
    [
      "an item in an item",
      (file) => [
        [twoFds(file), [file]],
        [twoFds(file), [file, file]],
      ],
    ],
    [
      "an end in an item",
      (file) => [
        [twoFds(file), [file]],
        [END, []],
      ],
    ],
    ["descriptors with a question", (file) => [[ASK, [file]]]],
    ["descriptors with the end", (file) => [[END, [file]]]],
  ];
  for (const [what, packets] of refused) {
    it(`refuse ${what}, and close all that had come`, async () => {
      open();
      using file = createMemoryFile("test", 4096);
      const before = openFdCount();
      for (const [bytes, fds] of [[twoFds(file), [file, file]] as const, ...packets(file)]) one.trySend(bytes, fds);
      await assert.rejects(soon("receiving ends", receiveBatches(other, deadline())), (error) =>
        hasCode(error, "INVALID_MESSAGE"),
      );
      assert.equal(openFdCount(), before - 1, "the socket is closed, and nothing else is open");
    });
  }

  it("refuse more descriptors or bytes than the receiver takes, before they come", async () => {
    for (const batchLimits of [
      { fdsMax: 3, bytesMax: 1000 },
      { fdsMax: 100, bytesMax: 19 },
    ]) {
      open();
      using file = createMemoryFile("test", 4096);
      const receiving = receiveBatches(other, deadline(), batchLimits);
      const items = [text("x", [file, file]), text("x", [file, file])];
      const sending = sendBatches(one, items, deadline());
      await assert.rejects(soon("receiving ends", receiving), (error) => hasCode(error, "LIMIT_EXCEEDED"));
      await assert.rejects(soon("sending ends", sending), (error) => hasCode(error, "PEER_GONE"));
    }
    open();
    const exact = receiveBatches(other, deadline(), { fdsMax: 0, bytesMax: 20 });
    await soon("sent", sendBatches(one, [text("x"), text("x")], deadline()));
    assert.equal((await exact).length, 2);
  });

  it("hand over ten thousand descriptors of a user who may have few open, also while others of that user's are under way", {
    skip: skipUnlessRoot,
  }, async () => {
    open();
    const stdio = ["ignore", "inherit", "inherit", one.fd.number] as const;
    const sender = spawn("prlimit", ["--nofile=64:64", process.execPath, SENDER], { stdio: [...stdio] });
    const exited = new Promise((resolve) => sender.on("exit", resolve));
    one.close();
    const received = await soon("all is received", receiveBatches(other, deadline()));
    assert.deepEqual([received.length, received.flatMap(({ fds }) => fds).length], [101, 10_500]);
    closeAll(received);
    other.close();
    assert.equal(await soon("the sender ends", exited), 0);
  });
});
