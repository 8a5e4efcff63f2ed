import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { noLog } from "../../../../src/base/log-events.js";
import { libc } from "../../../../src/ffi/libc.js";
import { Journal } from "../../../../src/hub/restart/journal.js";
import { HubFiles } from "../../../../src/hub/server/hub-files.js";
import { lockPathOf } from "../../../../src/hub/server/hub-start.js";
import { tryLockPath } from "../../../../src/os/file-lock.js";
import { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { SeqpacketListener } from "../../../../src/os/seqpacket-listener.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { TestFolder } from "../../../support/test-folder.js";
import { until } from "../../../support/until.js";

describe("HubFiles", () => {
  checkLeaks();

  it("knows its own socket although so many clients wait there that it cannot connect", async () => {
    using folder = new TestFolder();
    const lock = tryLockPath(lockPathOf(folder.socket));
    assert.ok(lock !== undefined);
    const { journal } = Journal.open(folder.file("journal"), "boot", noLog);
    const listener = SeqpacketListener.listen(folder.socket);
    libc().listen(listener.fd.number, 0);
    const client = SeqpacketSocket.connect(folder.socket);
    const told: string[] = [];
    const files = new HubFiles({
      socketPath: folder.socket,
      lock,
      journal,
      ownsSocket: true,
      isPassed: true,
      checkFolder: () => true,
      listen: () => assert.fail("the socket is there"),
      onLock: () => assert.fail("the lock is there"),
      onListener: () => assert.fail("the socket is there"),
      log: (event) => told.push(event),
    });
    try {
      files.watch();
      await until("it has found that it cannot connect", () => told.includes("files-missing"));
      listener.tryAccept()?.close();
      await until("it has found its socket", () => told.includes("files-restored"));
      assert.deepEqual(files.troubles, []);
    } finally {
      for (const one of [client, listener, files, journal]) one.close();
    }
  });
});
