import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { describeAbsentHub } from "../../../src/cli/join-hub.js";
import { tryLockPath } from "../../../src/os/file-lock.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { TestFolder } from "../../support/test-folder.js";

describe("describeAbsentHub", () => {
  it("says that a hub starts, and not that it was killed, if one holds the lock", () => {
    using folder = new TestFolder();
    const { socket } = folder;
    const starting = {
      words: `no hub listens at ${socket} yet, but one is starting; try again in a moment`,
      startable: false,
    };
    const lock = tryLockPath(`${socket}.lock`);
    assert.deepEqual(describeAbsentHub(socket), starting);
    // A socket file that nobody listens at.
    SeqpacketListener.listen(socket).close();
    assert.deepEqual(describeAbsentHub(socket), starting);
    lock?.close();
    assert.match(describeAbsentHub(socket).words, /was killed/);
  });

  it("says that none runs", () => {
    using folder = new TestFolder();
    const words = `no hub runs at ${folder.socket}`;
    assert.deepEqual(describeAbsentHub(folder.socket), { words, startable: true });
  });
});
