import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { tryLockFile } from "../../../src/os/file-lock.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

describe("connect", () => {
  checkLeaks();

  it("is given up in the middle of a pause between two attempts", async (t) => {
    using folder = new TestFolder();
    // As by another process that is starting a hub.
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
});

async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
