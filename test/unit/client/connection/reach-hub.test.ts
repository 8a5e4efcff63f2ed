import assert from "node:assert/strict";
import { existsSync, rmSync } from "node:fs";
import { describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { tryConnect, tryStart } from "../../../../src/client/connection/reach-hub.js";
import { libc } from "../../../../src/ffi/libc.js";
import { ownUid } from "../../../../src/os/runtime-folder.js";
import type { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import { tryConnectTwin, tryHoldTwin } from "../../../../src/os/socket-twin.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { TestFolder } from "../../../support/test-folder.js";

describe("tryConnect", () => {
  checkLeaks();

  it("tries again while the queue of the twin is full, and then finds that nobody listens", async () => {
    using folder = new TestFolder();
    const socketPath = folder.socket;
    rmSync(folder.path, { recursive: true });
    const trusted = new Set([ownUid()]);
    const target = { socketPath, program: "test", trusted, start: false, hubIdleMs: 1000 };
    const twin = tryHoldTwin(socketPath);
    assert.ok(twin !== undefined);
    libc().listen(twin.fd.number, 0);
    const clients: SeqpacketSocket[] = [];
    for (;;) {
      const client = tryConnectTwin(socketPath, trusted);
      if (client === "crowded") break;
      assert.ok(client !== undefined);
      clients.push(client);
    }
    const late = new Deadline("connect", { timeoutMs: 50 }, 50);
    await assert.rejects(tryConnect(target, { deadline: late }), {
      code: "TIMEOUT",
      message: /a hub listens there, and more clients connect to it than it can admit/,
    });
    const deadline = new Deadline("connect", {}, 60_000);
    const connecting = tryConnect(target, { deadline });
    twin.close();
    assert.equal(await connecting, undefined);
    for (const client of clients) client.close();
  });
});

describe("tryStart", () => {
  checkLeaks();

  it("has the caller try again if the folder is removed meanwhile", async () => {
    using folder = new TestFolder();
    rmSync(folder.path, { recursive: true });
    const socketPath = folder.socket;
    const trusted = new Set([ownUid()]);
    const target = { socketPath, program: "test", trusted, start: true, hubIdleMs: 1000 };
    const deadline = new Deadline("start a hub", {}, 10_000);
    assert.equal(await tryStart(target, { deadline }, false), undefined);
    assert.equal(existsSync(folder.path), false);
  });
});
