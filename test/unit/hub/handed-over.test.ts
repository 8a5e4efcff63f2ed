import assert from "node:assert/strict";
import { readlinkSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { readHandedOver } from "../../../src/hub/handed-over.js";
import { checkHead, decodeWord, encodeWord, packed } from "../../../src/hub/takeover-messages.js";
import { tryLockFile } from "../../../src/os/file-lock.js";
import { createMemoryFile, inspectMemoryFile } from "../../../src/os/memory-file.js";
import { openFile } from "../../../src/os/open-file.js";
import type { OwnedFd } from "../../../src/os/owned-fd.js";
import { SeqpacketListener, SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { checkLeaks } from "../../support/leak-check.js";
import { hostArray } from "../../support/messages.js";
import { TestFolder } from "../../support/test-folder.js";

type Line = Record<string, unknown>;
type Attached = { value: Line; fds: OwnedFd[] };

/** What a hub with one object, one client and one reply that was not read hands over; everything in it is the reader's. */
function handedOver(folder: TestFolder): { head: Attached; lines: Attached[]; keep: OwnedFd[] } {
  const lock = tryLockFile(folder.file("lock"));
  assert.ok(lock !== undefined);
  const memory = createMemoryFile("frame", 4096);
  const [near, far] = SeqpacketSocket.pair();
  const { uid, gid } = near.peerCredentials();
  const peer = { pid: process.pid, startTicks: 5, uid, gid, groups: [] };
  const session = { t: "session", id: 1, program: "p", ...peer };
  const { inode } = inspectMemoryFile(memory);
  const object = {
    ...{ t: "object", id: 2, name: "frame", lifetime: "held", sharing: { with: "private", access: "read" } },
    ...{ descriptor: hostArray, createdAtMs: 1, owner: { pid: 1, uid, gid }, inodes: [inode], writable: true },
  };
  const connection = {
    ...{ t: "connection", id: 7, peer, attached: true, session, unrestored: null },
    ...{ waiting: [{ v: 1, id: 3, op: "open", name: "later", access: "read", wait: true }] },
    ...{ hasSocket: true, hasPidfd: false },
  };
  const listener = SeqpacketListener.listen(folder.file("socket"));
  return {
    head: {
      value: { t: "head", pid: 1, records: 3, connections: 1, memories: 1, queued: 1 },
      fds: [listener.fd, lock],
    },
    lines: [
      { value: session, fds: [] },
      { value: object, fds: [] },
      { value: { t: "lease", id: 4, object: 2, session: 1, kind: "owner" }, fds: [] },
      { value: connection, fds: [near.fd] },
      { value: { t: "memory", object: 2, fds: 1 }, fds: [memory] },
      { value: { t: "queued", connection: 7, text: "{}", fds: 1 }, fds: [memory.duplicate()] },
    ],
    keep: [far.fd],
  };
}

describe("readHandedOver", () => {
  checkLeaks();

  function read(spoil: (all: { head: Attached; lines: Attached[]; keep: OwnedFd[] }) => void) {
    using folder = new TestFolder();
    const all = handedOver(folder);
    const before = [all.head, ...all.lines].flatMap(({ fds }) => fds);
    spoil(all);
    const after = [all.head, ...all.lines].flatMap(({ fds }) => fds);
    try {
      return readHandedOver([...packed([all.head]), ...packed(all.lines)]);
    } catch (error) {
      assert.ok(
        after.every((fd) => fd.closed),
        "what came is closed",
      );
      throw error;
    } finally {
      for (const fd of [...all.keep, ...before.filter((fd) => !after.includes(fd))]) fd.close();
    }
  }

  it("gives all of it", () => {
    const { listener, lock, inheritance, held } = read(() => {});
    assert.equal(inheritance.memory.get(2)?.writable, true);
    assert.deepEqual([...inheritance.state.leases.keys()], [4]);
    assert.deepEqual(
      inheritance.connections.map(({ id, waiting }) => [id, waiting.length]),
      [[7, 1]],
    );
    assert.deepEqual(
      held.get(7)?.queued.map(({ bytes, fds }) => [String(bytes), fds.length]),
      [["{}", 1]],
    );
    for (const { fds } of inheritance.memory.values()) for (const fd of fds) fd.close();
    for (const { socket, queued } of held.values()) {
      socket?.close();
      for (const { fds } of queued) for (const fd of fds) fd.close();
    }
    listener.close();
    lock.close();
  });

  const spoiled: Record<string, (all: { head: Attached; lines: Attached[] }) => void> = {
    "a head that counts otherwise": ({ head }) => Object.assign(head.value, { records: 4 }),
    "a listener that is none": ({ head }) => head.fds.splice(0, 1, createMemoryFile("x", 1)),
    "a lock that another holds": ({ head }) => {
      const path = readlinkSync(`/proc/self/fd/${head.fds[1]?.number}`);
      head.fds.splice(1, 1, openFile(path, "append"));
    },
    "a head without its lock": ({ head }) => head.fds.pop(),
    "a record of no kind": ({ lines }) => Object.assign(lines[0]?.value ?? {}, { t: "unheard-of" }),
    "a connection without its socket": ({ lines }) => Object.assign(lines[3]?.value ?? {}, { hasSocket: false }),
    "a connection of another user": ({ lines }) => Object.assign(lines[3]?.value.peer ?? {}, { uid: 4_000_000 }),
    "a connection twice": ({ lines }) =>
      lines.push({ value: { ...lines[3]?.value, hasSocket: false, attached: false }, fds: [] }),
    "a wait for something else": ({ lines }) =>
      Object.assign(lines[3]?.value ?? {}, { waiting: [{ v: 1, id: 3, op: "bye" }] }),
    "other memory": ({ lines }) => lines[4]?.fds.splice(0, 1, createMemoryFile("x", 4096)),
    "memory of no object": ({ lines }) => Object.assign(lines[4]?.value ?? {}, { object: 9 }),
    "memory that did not come": ({ lines }) => Object.assign(lines[4]?.value ?? {}, { fds: 5 }),
    "memory that nothing speaks of": ({ lines }) =>
      lines.push({ value: { t: "last-id", id: 9 }, fds: [createMemoryFile("x", 1)] }),
    "a reply to nobody": ({ lines }) => Object.assign(lines[5]?.value ?? {}, { connection: 8 }),
  };
  for (const [what, spoil] of Object.entries(spoiled)) {
    it(`refuses ${what}, and closes all`, () => {
      assert.throws(
        () => read(spoil),
        (error) => hasCode(error, "INVALID_MESSAGE") || hasCode(error, "INVALID_DESCRIPTOR"),
      );
    });
  }

  it("refuses nothing at all, and what is no JSON", () => {
    assert.throws(
      () => readHandedOver([]),
      (error) => hasCode(error, "INVALID_MESSAGE"),
    );
    assert.throws(
      () => decodeWord(Buffer.from("{")),
      (error) => hasCode(error, "INVALID_MESSAGE"),
    );
    assert.throws(
      () => decodeWord(Buffer.from('{"op":"others"}')),
      (error) => hasCode(error, "INVALID_MESSAGE"),
    );
    assert.throws(
      () => checkHead({}),
      (error) => hasCode(error, "INVALID_MESSAGE"),
    );
    assert.deepEqual(decodeWord(encodeWord({ op: "mine" })), { op: "mine" });
  });
});
