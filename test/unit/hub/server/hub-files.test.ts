import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { constants } from "node:os";
import { describe, it } from "node:test";
import { noLog } from "../../../../src/base/log-events.js";
import { interceptLibc } from "../../../../src/ffi/intercept-libc.js";
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
    using rig = new Rig({ isPassed: true });
    libc().listen(rig.listener.fd.number, 0);
    using _client = rig.connects();
    rig.files.watch();
    await until("it has found that it cannot connect", () => rig.told.includes("files-missing"));
    rig.listener.tryAccept()?.close();
    await until("it has found its socket", () => rig.told.includes("files-restored"));
    assert.deepEqual(rig.files.troubles, []);
  });

  it("tries again to write a removed journal until there is room for it", async () => {
    using rig = new Rig({ isPassed: false });
    const { journal } = rig;
    journal.keepShort(() => []);
    rig.files.watch();
    const undo = interceptLibc((call, [path]) =>
      call === "open" && path === `${journal.path}.new` ? constants.errno.ENOSPC : undefined,
    );
    try {
      rmSync(journal.path);
      await until("it says so", () => /journal .* was removed/.test(rig.files.troubles.join()));
    } finally {
      undo();
    }
    await until("all is well", () => journal.isInPlace && rig.files.troubles.length === 0);
  });
});

/** The files of a hub that nobody runs. */
class Rig {
  readonly #folder = new TestFolder();
  readonly listener = SeqpacketListener.listen(this.#folder.socket);
  readonly journal = Journal.open(this.#folder.file("journal"), "boot", noLog).journal;
  readonly files: HubFiles;
  /** The events of the log. */
  readonly told: string[] = [];

  constructor({ isPassed }: { readonly isPassed: boolean }) {
    const { socket } = this.#folder;
    const lock = tryLockPath(lockPathOf(socket));
    assert.ok(lock !== undefined);
    this.files = new HubFiles({
      socketPath: socket,
      lock,
      journal: this.journal,
      ownsSocket: true,
      isPassed,
      checkFolder: () => true,
      makeFolder: () => assert.fail("the folder is there"),
      endIfUnused: () => assert.fail("the folder is there"),
      twin: { holdTwin: () => true, openTwin: () => assert.fail("the socket is there") },
      listen: () => assert.fail("the socket is there"),
      onLock: () => assert.fail("the lock is there"),
      onListener: () => assert.fail("the socket is there"),
      log: (event) => this.told.push(event),
    });
  }

  connects(): SeqpacketSocket & Disposable {
    const socket = SeqpacketSocket.connect(this.#folder.socket);
    return Object.assign(socket, { [Symbol.dispose]: () => socket.close() });
  }

  [Symbol.dispose](): void {
    for (const one of [this.files, this.listener, this.journal]) one.close();
    this.#folder[Symbol.dispose]();
  }
}
