import assert from "node:assert/strict";
import { existsSync, openSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { beforeEach, describe, it } from "node:test";
import type { ErrorCode } from "../../../src/base/error-codes.js";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { createConstantFile, createMemoryFile } from "../../../src/os/memory-file.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { receiveFd, sendFd } from "../../../src/peer/pass-fd.js";
import { UnixListener } from "../../../src/peer/unix-listener.js";
import { UnixSocket } from "../../../src/peer/unix-socket.js";
import { Disposables } from "../../support/disposables.js";
import { checkLeaks } from "../../support/leak-check.js";
import { OddFds } from "../../support/odd-fds.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon, until } from "../../support/until.js";

const ETOOMANYREFS = 109;
const any = (value: unknown) => value as never;

function refusal(code: ErrorCode, words = /./): (error: unknown) => boolean {
  return (error) => {
    assert.ok(hasCode(error, code), `wanted ${code}: ${String(error)}`);
    assert.match(error.message, words);
    return true;
  };
}

describe("UnixSocket", () => {
  let made = new Disposables();
  let folder: TestFolder;
  let path: string;
  checkLeaks(() => made.end());
  beforeEach(() => {
    made = new Disposables();
    folder = made.add(new TestFolder());
    path = folder.file("peer.sock");
  });

  async function pair(type: "stream" | "seqpacket"): Promise<readonly [UnixSocket, UnixSocket]> {
    using listener = UnixListener.listen(path, { type });
    const one = made.add(await UnixSocket.connect(path, { type }));
    return [one, made.add(await listener.accept())];
  }

  function memory(words = "memory"): OwnedFd {
    return made.add(createConstantFile("test", Buffer.from(words)));
  }

  it("waits while its user has too many descriptors in flight, and says so at the end", async () => {
    const [one, other] = await pair("stream");
    let refusals = 0;
    const undo = interceptLibc((call) => {
      if (call !== "sendmsg") return undefined;
      refusals += 1;
      return ETOOMANYREFS;
    });
    try {
      const late = sendFd(one, memory("late"), Uint8Array.of(1));
      await until("it has tried again", () => refusals > 2);
      undo();
      await soon("it is sent", late);
    } finally {
      undo();
    }
    const received = await receiveFd(other, { metadataBytes: 1 });
    using fd = received.fd;
    assert.equal(readFileSync(`/proc/self/fd/${fd.number}`, "utf8"), "late");
    const undoAll = interceptLibc((call) => (call === "sendmsg" ? ETOOMANYREFS : undefined));
    try {
      const never = sendFd(one, memory("never"), Uint8Array.of(1), { timeoutMs: 5 });
      await assert.rejects(
        never,
        refusal("TIMEOUT", /user \d+ has more file descriptors in flight than this process may/),
      );
    } finally {
      undoAll();
    }
  });

  for (const type of ["stream", "seqpacket"] as const) {
    it(`of type ${type} carries bytes and descriptors in order, both ways`, async () => {
      const [one, other] = await pair(type);
      assert.deepEqual([one.type, one.peer.pid, other.peer.pid], [type, process.pid, process.pid]);
      await one.send(Uint8Array.of(1));
      await sendFd(one, memory("first"), Uint8Array.of(2, 3));
      await sendFd(one, memory("second"), Uint8Array.of(4));
      await one.send(Uint8Array.of(5, 6));
      assert.deepEqual(await other.receive(1), Uint8Array.of(1));
      for (const [metadata, words] of [
        [Uint8Array.of(2, 3), "first"],
        [Uint8Array.of(4), "second"],
      ] as const) {
        const received = await receiveFd(other, { metadataBytes: metadata.byteLength });
        using fd = received.fd;
        assert.deepEqual(received.metadata, metadata);
        assert.equal(received.kind, "memory file");
        assert.equal(readFileSync(`/proc/self/fd/${fd.number}`, "utf8"), words);
      }
      assert.deepEqual(await other.receive(2), Uint8Array.of(5, 6));
      await other.send(Uint8Array.of(7));
      assert.deepEqual(await one.receive(1), Uint8Array.of(7));
    });

    it(`of type ${type} refuses every descriptor that is not memory, and keeps none`, async () => {
      const [one, other] = await pair(type);
      using odd = new OddFds();
      for (const fd of odd.all) {
        await sendFd(one, fd, Uint8Array.of(1));
        const receiving = receiveFd(other, { metadataBytes: 1 });
        const kind = await receiving.then(
          ({ fd, kind }) => {
            fd.close();
            return kind;
          },
          (error: unknown) => assert.ok(refusal("INVALID_DESCRIPTOR", /of kind/)(error)),
        );
        assert.ok(kind === undefined || kind === "memory file");
      }
    });

    it(`of type ${type} ends waits at the time limit, at the signal and at close()`, async () => {
      const [one, other] = await pair(type);
      const words = new RegExp(
        `from process ${process.pid}: not done within 1 ms; it sent nothing`,
      );
      const late = receiveFd(other, { metadataBytes: 8, timeoutMs: 1 });
      await assert.rejects(late, refusal("TIMEOUT", words));
      await assert.rejects(other.receive(1, { timeoutMs: 0 }), refusal("TIMEOUT"));
      const controller = new AbortController();
      const waiting = other.receive(1, { signal: controller.signal });
      controller.abort();
      await assert.rejects(waiting, refusal("ABORTED"));
      const first = receiveFd(other, { metadataBytes: 1 });
      await assert.rejects(other.receive(1), refusal("IN_USE", /earlier call to receive/));
      await sendFd(one, memory(), Uint8Array.of(1));
      (await first).fd.close();
      const last = other.receive(1);
      other.close();
      await assert.rejects(last, refusal("CLOSED"));
      await assert.rejects(other.send(Uint8Array.of(1)), refusal("CLOSED"));
      await assert.rejects(one.receive(1), refusal("PEER_GONE", /it has hung up/));
      await assert.rejects(one.send(Uint8Array.of(1)), refusal("PEER_GONE", /it has hung up/));
    });

    it(`of type ${type} waits until the other side reads`, async () => {
      const [one, other] = await pair(type);
      const large = new Uint8Array(limits.messageBytesMax).map((_, i) => i % 251);
      let sent = 0;
      const sending = (async () => {
        for (; sent < 40; sent += 1) await sendFd(one, memory(`${sent}`), large);
      })();
      await new Promise((resolve) => setImmediate(resolve));
      assert.ok(sent < 40, "the socket is full");
      for (let i = 0; i < 40; i += 1) {
        const { fd, metadata } = await receiveFd(other, { metadataBytes: large.byteLength });
        assert.equal(readFileSync(`/proc/self/fd/${fd.number}`, "utf8"), `${i}`);
        fd.close();
        assert.ok(Buffer.from(metadata).equals(large));
      }
      await sending;
    });

    it(`of type ${type} gives up on a side that does not read, and says who it is`, async () => {
      const [one] = await pair(type);
      const large = new Uint8Array(limits.messageBytesMax);
      const words = new RegExp(`to process ${process.pid}: not done within 20 ms; it `);
      await assert.rejects(
        async () => {
          for (;;) await sendFd(one, memory(), large, { timeoutMs: 20 });
        },
        refusal("TIMEOUT", words),
      );
    });

    it(`of type ${type} hands over what was sent before the other side closed`, async () => {
      const [one, other] = await pair(type);
      await sendFd(one, memory("last words"), Uint8Array.of(9));
      one.close();
      using fd = (await receiveFd(other, { metadataBytes: 1 })).fd;
      assert.equal(readFileSync(`/proc/self/fd/${fd.number}`, "utf8"), "last words");
      await assert.rejects(other.receive(1), refusal("PEER_GONE"));
    });

    it(`of type ${type} refuses a descriptor where only bytes were asked for`, async () => {
      const [one, other] = await pair(type);
      await sendFd(one, memory(), Uint8Array.of(1));
      await assert.rejects(other.receive(1), refusal("INVALID_MESSAGE", /Use receiveFd/));
      await sendFd(one, memory(), Uint8Array.of(1));
      other.close();
    });
  }

  it("takes a message of any size on a seqpacket socket if none is asked for", async () => {
    const [one, other] = await pair("seqpacket");
    await sendFd(one, memory(), new Uint8Array(100));
    const { fd, metadata } = await receiveFd(other);
    fd.close();
    assert.equal(metadata.byteLength, 100);
    await one.send(new Uint8Array(3));
    await assert.rejects(other.receive(2), refusal("INVALID_MESSAGE", /3 bytes came, wanted 2/));
    await one.send(Uint8Array.of(4));
    assert.deepEqual(await other.receive(1), Uint8Array.of(4));
  });

  it("refuses wrong arguments and options", async () => {
    const [one, other] = await pair("stream");
    const fd = memory();
    await assert.rejects(
      sendFd(any({}), fd, Uint8Array.of(1)),
      /^TypeError: socket must be a Unix/,
    );
    await assert.rejects(
      sendFd(one, any(3), Uint8Array.of(1)),
      /^TypeError: fd must be an OwnedFd/,
    );
    await assert.rejects(sendFd(one, fd, any("x")), /^TypeError: metadata must be a Uint8Array/);
    await assert.rejects(sendFd(one, fd, new Uint8Array(0)), /^RangeError: metadata must have/);
    const tooLarge = new Uint8Array(limits.messageBytesMax + 1);
    await assert.rejects(sendFd(one, fd, tooLarge), refusal("MESSAGE_TOO_LARGE"));
    await assert.rejects(
      receiveFd(other),
      /^TypeError: receiveFd\(\) needs the option metadataBytes/,
    );
    await assert.rejects(receiveFd(other, { metadataBytes: 0 }), RangeError);
    await assert.rejects(receiveFd(other, any({ timeout: 5 })), /has no option "timeout"/);
    await assert.rejects(other.receive(0), RangeError);
    await assert.rejects(UnixSocket.connect(path, any({ type: "dgram" })), /type must be "stream"/);
    assert.throws(() => UnixListener.listen(path, any({ type: "dgram" })), /type must be "stream"/);
    fd.close();
    await assert.rejects(sendFd(one, fd, Uint8Array.of(1)), refusal("CLOSED"));
  });

  it("waits until somebody listens, and says what is at the path", async () => {
    const connecting = UnixSocket.connect(path);
    using listener = UnixListener.listen(path);
    made.add(await connecting);
    made.add(await listener.accept());
    listener.close();
    const absent = UnixSocket.connect(path, { timeoutMs: 1 });
    await assert.rejects(absent, refusal("TIMEOUT", /there is no such socket/));
    const aborted = UnixSocket.connect(path, { signal: AbortSignal.abort() });
    await assert.rejects(aborted, refusal("ABORTED"));
  });
});

describe("UnixListener", () => {
  let made = new Disposables();
  let path: string;
  checkLeaks(() => made.end());
  beforeEach(() => {
    made = new Disposables();
    path = made.add(new TestFolder()).file("peer.sock");
  });

  it("lets only this user connect, and removes its files", () => {
    const listener = made.add(UnixListener.listen(path));
    assert.deepEqual([listener.path, listener.type], [path, "stream"]);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    listener.close();
    assert.deepEqual([existsSync(path), existsSync(`${path}.lock`)], [false, false]);
  });

  it("replaces the socket of a dead process, and nothing else", () => {
    const stale = SeqpacketListener.listen(path);
    assert.throws(() => UnixListener.listen(path, { type: "seqpacket" }), refusal("NAME_TAKEN"));
    assert.throws(() => UnixListener.listen(path, { type: "stream" }), refusal("NAME_TAKEN"));
    stale.close();
    const listener = made.add(UnixListener.listen(path));
    assert.throws(
      () => UnixListener.listen(path),
      refusal("NAME_TAKEN", /another process listens/),
    );
    listener.close();
    writeFileSync(path, "precious");
    assert.throws(() => UnixListener.listen(path), refusal("FILE_EXISTS"));
    assert.equal(readFileSync(path, "utf8"), "precious");
  });

  it("ends waits at the time limit, at the signal and at close()", async () => {
    const listener = made.add(UnixListener.listen(path));
    await assert.rejects(listener.accept({ timeoutMs: 1 }), refusal("TIMEOUT"));
    await assert.rejects(listener.accept({ signal: AbortSignal.abort() }), refusal("ABORTED"));
    const waiting = listener.accept();
    await assert.rejects(listener.accept(), refusal("IN_USE"));
    listener.close();
    await assert.rejects(waiting, refusal("CLOSED"));
    await assert.rejects(listener.accept(), refusal("CLOSED"));
  });

  it("hangs up on those that nobody accepted, with what they sent", async () => {
    const listener = made.add(UnixListener.listen(path));
    const socket = made.add(await UnixSocket.connect(path));
    using fd = createMemoryFile("test", 4096);
    await sendFd(socket, fd, Uint8Array.of(1));
    using other = new OwnedFd(openSync("/dev/null", "r"));
    await sendFd(socket, other, Uint8Array.of(1));
    listener.close();
    await assert.rejects(socket.receive(1), refusal("PEER_GONE"));
  });
});
