import assert from "node:assert/strict";
import { existsSync, statSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { interceptLibc } from "../../../src/ffi/intercept-libc.js";
import { libc } from "../../../src/ffi/libc.js";
import { lockHolder, tryLockFile, tryLockPath, unlockFile } from "../../../src/os/file-lock.js";
import { openFile } from "../../../src/os/open-file.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { removeStaleSocket, SocketFile } from "../../../src/os/socket-file.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

const LOCKS = new URL("./actors/locks-file.js", import.meta.url);

describe("tryLockFile", () => {
  checkLeaks();

  it("gives the lock to one process, and to the next one when the first is killed", async () => {
    using folder = new TestFolder();
    const path = folder.file("lock");
    await using actor = new Actor(LOCKS, { args: [path] });
    assert.equal(await actor.says(), true);
    assert.equal(tryLockFile(path), undefined);
    await using second = new Actor(LOCKS, { args: [path] });
    assert.equal(await second.says(), false);
    actor.kill("SIGKILL");
    await actor.exited();
    const lock = tryLockFile(path);
    assert.ok(lock !== undefined);
    lock.close();
  });

  it("makes a file that its user can open again, whatever the umask", () => {
    using folder = new TestFolder();
    const umask = process.umask(0o777);
    try {
      tryLockFile(folder.file("lock"))?.close();
    } finally {
      process.umask(umask);
    }
    assert.equal(statSync(folder.file("lock")).mode & 0o777, 0o600);
  });

  it("throws if the file cannot be created", () => {
    using folder = new TestFolder();
    assert.throws(() => tryLockFile(folder.file("no/such/folder")), /ENOENT/);
  });
});

describe("lockHolder", () => {
  checkLeaks();

  /** Looks, and returns what it found and how often it took a lock. */
  function look(path: string, ofdError?: number): { words: string | undefined; taken: number } {
    let taken = 0;
    const undo = interceptLibc((call) => {
      if (call === "flock") taken += 1;
      return call === "fcntl_lock" ? ofdError : undefined;
    });
    try {
      return { words: lockHolder(path)?.words, taken };
    } finally {
      undo();
    }
  }

  it("names the holder, and takes no lock, so that a hub can start meanwhile", () => {
    using folder = new TestFolder();
    const path = folder.file("lock");
    assert.deepEqual(look(path), { words: undefined, taken: 0 });
    const lock = tryLockPath(path);
    assert.ok(lock !== undefined);
    assert.deepEqual(look(path), { words: `process ${process.pid}`, taken: 0 });
    unlockFile(lock);
    assert.deepEqual(look(path), { words: undefined, taken: 0 });
    lock.close();
  });

  it("works on a system that lacks F_OFD_GETLK", () => {
    using folder = new TestFolder();
    const path = folder.file("lock");
    const lock = tryLockPath(path);
    const held = { words: `process ${process.pid}`, taken: 1 };
    assert.deepEqual(look(path, constants.errno.EINVAL), held);
    lock?.close();
    assert.deepEqual(look(path, constants.errno.EINVAL), { words: undefined, taken: 1 });
  });

  it("is not misled by a process that holds a read lock, and neither is a hub that starts", () => {
    using folder = new TestFolder();
    const path = folder.file("lock");
    tryLockPath(path)?.close();
    using other = openFile(path, "own");
    const F_OFD_SETLK = 37;
    assert.equal(libc().fcntl_lock(other.number, F_OFD_SETLK, new Uint8Array(32)), 0);
    assert.equal(lockHolder(path), undefined);
    const lock = tryLockPath(path);
    assert.ok(lock !== undefined);
    lock.close();
  });
});

describe("socket files", () => {
  checkLeaks();

  it("are removed if they are stale, and other files are not", () => {
    using folder = new TestFolder();
    removeStaleSocket(folder.socket);
    SeqpacketListener.listen(folder.socket).close();
    removeStaleSocket(folder.socket);
    assert.equal(existsSync(folder.socket), false);
    writeFileSync(folder.socket, "precious");
    assert.throws(
      () => removeStaleSocket(folder.socket),
      (error) => hasCode(error, "HUB_UNAVAILABLE"),
    );
    assert.ok(existsSync(folder.socket));
  });

  it("are removed by their creator unless another process has replaced them", () => {
    using folder = new TestFolder();
    const listener = SeqpacketListener.listen(folder.socket);
    const made = new SocketFile(folder.socket);
    removeStaleSocket(folder.socket);
    made.remove();
    const next = SeqpacketListener.listen(folder.socket);
    made.remove();
    assert.ok(existsSync(folder.socket), "the next one's file is still there");
    new SocketFile(folder.socket).remove();
    assert.equal(existsSync(folder.socket), false);
    listener.close();
    next.close();
  });
});
