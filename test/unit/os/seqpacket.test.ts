import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { openSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { releaseAll } from "../../../src/base/scope.js";
import { createConstantFile } from "../../../src/os/memory-file.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { type Packet, SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestFolder } from "../../support/test-folder.js";

const FULL_TABLE = fileURLToPath(new URL("./actors/full-fd-table.js", import.meta.url));

function withPair(work: (one: SeqpacketSocket, other: SeqpacketSocket) => void): void {
  const [one, other] = SeqpacketSocket.pair();
  try {
    work(one, other);
  } finally {
    one.close();
    other.close();
  }
}

function received(socket: SeqpacketSocket): Packet {
  const packet = socket.tryReceive();
  assert.ok(packet !== undefined && packet !== "end", `found ${String(packet)}`);
  return packet;
}

function closeAll(fds: readonly OwnedFd[]): void {
  releaseAll(fds.map((fd) => () => fd.close()));
}

describe("SeqpacketSocket", () => {
  checkLeaks();

  for (const count of [0, 1, 4, 253]) {
    it(`carries a message with ${count} descriptors`, () => {
      withPair((one, other) => {
        const fds = Array.from({ length: count }, (_, i) =>
          createConstantFile("test", Buffer.from(`file ${i}`)),
        );
        assert.ok(one.trySend(Buffer.from("hello"), fds));
        closeAll(fds);
        const packet = received(other);
        assert.equal(Buffer.from(packet.bytes).toString(), "hello");
        assert.equal(packet.damage, undefined);
        const contents = packet.fds.map((fd) => readFileSync(`/proc/self/fd/${fd.number}`, "utf8"));
        assert.deepEqual(
          contents,
          fds.map((_, i) => `file ${i}`),
        );
        closeAll(packet.fds);
      });
    });
  }

  it("marks received descriptors to be closed on exec", () => {
    withPair((one, other) => {
      using fd = new OwnedFd(openSync("/dev/null", "r"));
      one.trySend(Buffer.from("x"), [fd]);
      const packet = received(other);
      const flags = readFileSync(`/proc/self/fdinfo/${packet.fds[0]?.number}`, "utf8");
      closeAll(packet.fds);
      assert.match(flags, /^flags:\s+02\d{6}$/m, "O_CLOEXEC (02000000) is set");
    });
  });

  it("refuses more descriptors than the kernel allows, and sends nothing", () => {
    withPair((one, other) => {
      using fd = new OwnedFd(openSync("/dev/null", "r"));
      assert.throws(() => one.trySend(Buffer.from("x"), new Array(254).fill(fd)), RangeError);
      assert.equal(other.tryReceive(), undefined);
    });
  });

  it("keeps messages apart, each with its own descriptors", () => {
    withPair((one, other) => {
      using fd = createConstantFile("test", Buffer.from("b"));
      one.trySend(Buffer.from("first"));
      one.trySend(Buffer.from("second"), [fd]);
      one.trySend(Buffer.from("third"));
      const packets = [received(other), received(other), received(other)];
      assert.deepEqual(
        packets.map(({ bytes, fds }) => [Buffer.from(bytes).toString(), fds.length]),
        [
          ["first", 0],
          ["second", 1],
          ["third", 0],
        ],
      );
      closeAll(packets.flatMap(({ fds }) => fds));
    });
  });

  it("sends a message of the limit, and refuses a longer or an empty one", () => {
    withPair((one, other) => {
      const longest = new Uint8Array(limits.messageBytesMax).fill(1);
      assert.ok(one.trySend(longest));
      assert.deepEqual(received(other).bytes, longest);
      for (const bytes of [new Uint8Array(limits.messageBytesMax + 1), new Uint8Array(0)]) {
        assert.throws(
          () => one.trySend(bytes),
          (error) => hasCode(error, "MESSAGE_TOO_LARGE"),
        );
      }
    });
  });

  it("reports that there is no message, and later that the other side is gone", () => {
    withPair((one, other) => {
      assert.equal(other.tryReceive(), undefined);
      one.close();
      assert.equal(other.tryReceive(), "end");
    });
  });

  it("returns false if the other side does not read, and true after it has", () => {
    withPair((one, other) => {
      const bytes = new Uint8Array(limits.messageBytesMax);
      let sent = 0;
      while (one.trySend(bytes)) sent += 1;
      assert.ok(sent > 0);
      for (let i = 0; i < sent; i += 1) received(other);
      assert.equal(other.tryReceive(), undefined);
      assert.ok(one.trySend(bytes));
    });
  });

  it("throws PEER_GONE if the other side has hung up", () => {
    withPair((one, other) => {
      other.close();
      assert.throws(
        () => one.trySend(Buffer.from("x")),
        (error) => hasCode(error, "PEER_GONE"),
      );
    });
  });

  it("receives the last messages of a peer that hung up without reading everything", () => {
    withPair((one, other) => {
      one.trySend(Buffer.from("a request"));
      one.trySend(Buffer.from("a request that is never read"));
      received(other);
      other.trySend(Buffer.from("the answer"));
      other.close();
      assert.equal(Buffer.from(received(one).bytes).toString(), "the answer");
      assert.equal(one.tryReceive(), "end");
    });
  });

  it("returns the peer's credentials and a pidfd", () => {
    withPair((one) => {
      assert.deepEqual(one.peerCredentials(), {
        pid: process.pid,
        uid: process.getuid?.(),
        gid: process.getgid?.(),
      });
      const pidfd = one.peerPidfd();
      assert.match(
        readFileSync(`/proc/self/fdinfo/${pidfd?.number}`, "utf8"),
        new RegExp(`^Pid:\\s+${process.pid}$`, "m"),
      );
      pidfd?.close();
    });
  });

  it("returns the peer's groups", { skip: skipUnlessRoot }, () => {
    const before = process.getgroups?.() ?? [];
    for (const count of [0, 1, 32, 33, 1000]) {
      const groups = Array.from({ length: count }, (_, i) => 70_000 + i);
      process.setgroups?.(groups);
      try {
        withPair((one) => assert.deepEqual(one.peerGroups(), groups));
      } finally {
        process.setgroups?.(before);
      }
    }
  });

  it("returns the groups of this process", () => {
    withPair((one) => {
      // WHY not the primary group: Node adds it to its own list, the kernel does not always.
      const others = (groups: number[]) =>
        groups.filter((gid) => gid !== process.getegid?.()).sort();
      assert.deepEqual(others(one.peerGroups()), others(process.getgroups?.() ?? []));
    });
  });

  it("marks a message whose descriptors did not all fit, and closes those that did", () => {
    const { stdout, stderr } = spawnSync(
      "prlimit",
      ["--nofile=64:64", process.execPath, FULL_TABLE],
      {
        encoding: "utf8",
      },
    );
    assert.deepEqual(
      JSON.parse(stdout || "{}"),
      { code: "TOO_MANY_FDS", fds: 0, bytes: "hello", left: 0 },
      stderr,
    );
  });
});

describe("SeqpacketListener", () => {
  checkLeaks();

  it("accepts clients", () => {
    using folder = new TestFolder();
    const listener = SeqpacketListener.listen(folder.socket);
    assert.equal(listener.tryAccept(), undefined);
    const client = SeqpacketSocket.connect(folder.socket);
    const served = listener.tryAccept();
    served?.trySend(Buffer.from("welcome"));
    assert.equal(Buffer.from(received(client).bytes).toString(), "welcome");
    client.close();
    served?.close();
    listener.close();
  });

  it("refuses a path over the system's limit, and leaves nothing open", () => {
    using folder = new TestFolder();
    const path = folder.file("x".repeat(limits.socketPathBytesMax));
    for (const attempt of [SeqpacketListener.listen, SeqpacketSocket.connect]) {
      assert.throws(
        () => attempt(path),
        (error) => hasCode(error, "SOCKET_PATH_TOO_LONG"),
      );
    }
  });

  it("accepts the longest path of the system", () => {
    using folder = new TestFolder();
    const path = folder.file("x".repeat(limits.socketPathBytesMax - folder.path.length - 1));
    SeqpacketListener.listen(path).close();
  });

  it("names ECONNREFUSED or ENOENT if nobody listens", () => {
    using folder = new TestFolder();
    assert.throws(() => SeqpacketSocket.connect(folder.socket), /ENOENT/);
    SeqpacketListener.listen(folder.socket).close();
    assert.throws(() => SeqpacketSocket.connect(folder.socket), /ECONNREFUSED/);
  });
});
