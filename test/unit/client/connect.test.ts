import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { libc } from "../../../src/ffi/libc.js";
import { tryLockFile } from "../../../src/os/file-lock.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";

describe("connect", () => {
  checkLeaks();

  it("can be aborted in a pause between two attempts", async (t) => {
    using folder = new TestFolder();
    // As if another process were starting a hub.
    using lock = tryLockFile(`${folder.socket}.start`);
    assert.ok(lock !== undefined);
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const controller = new AbortController();
    let failure: unknown;
    connect({ socket: folder.socket, signal: controller.signal }).catch((error: unknown) => {
      failure = error;
    });
    await turns();
    controller.abort();
    await turns();
    assert.ok(hasCode(failure, "ABORTED"), String(failure));
  });

  describe("with a hub whose queue of connections is full", () => {
    it("says so in its TIMEOUT", async () => {
      using crowd = new Crowd();
      const attempt = connect({ socket: crowd.path, start: false, timeoutMs: 100 });
      await assert.rejects(
        attempt,
        (error) =>
          hasCode(error, "TIMEOUT") && /more clients connect to it than/.test(String(error)),
      );
    });

    it("starts no other hub, and connects once there is room", async () => {
      using crowd = new Crowd();
      const attempt = connect({ socket: crowd.path, signal: crowd.end.signal });
      attempt.catch(() => {});
      await turns();
      assert.deepEqual(readdirSync(crowd.folder.path), ["hub.sock"]);
      const accepted = crowd.acceptWaiting();
      await until("one more connects", () => {
        accepted.push(...crowd.acceptWaiting());
        return accepted.length > crowd.size;
      });
      for (const socket of accepted) socket.close();
      crowd.end.abort();
      await assert.rejects(attempt, (error) => hasCode(error, "ABORTED"));
    });
  });
});

/** A listener that accepts nobody, with as many waiting connections as the kernel allows. */
class Crowd {
  readonly folder = new TestFolder();
  readonly path = this.folder.socket;
  readonly end = new AbortController();
  readonly listener = SeqpacketListener.listen(this.path);
  readonly #waiting: SeqpacketSocket[] = [];

  constructor() {
    // A second listen() shortens the queue.
    assert.equal(libc().listen(this.listener.fd.number, 1), 0);
    const connectOneMore = () => this.#waiting.push(SeqpacketSocket.connect(this.path));
    assert.throws(() => {
      while (this.#waiting.length < 100) connectOneMore();
    }, /EAGAIN/);
  }

  get size(): number {
    return this.#waiting.length;
  }

  acceptWaiting(): SeqpacketSocket[] {
    const accepted: SeqpacketSocket[] = [];
    for (
      let next = this.listener.tryAccept();
      next !== undefined;
      next = this.listener.tryAccept()
    ) {
      accepted.push(next);
    }
    return accepted;
  }

  [Symbol.dispose](): void {
    for (const socket of this.#waiting) socket.close();
    this.listener.close();
    this.folder[Symbol.dispose]();
  }
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
