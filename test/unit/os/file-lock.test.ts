import assert from "node:assert/strict";
import { existsSync, statSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { tryLockFile } from "../../../src/os/file-lock.js";
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
