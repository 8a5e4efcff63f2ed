import assert from "node:assert/strict";
import { existsSync, rmSync } from "node:fs";
import { describe, it } from "node:test";
import { Deadline } from "../../../../src/base/deadline.js";
import { tryStart } from "../../../../src/client/connection/reach-hub.js";
import { ownUid } from "../../../../src/os/runtime-folder.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { TestFolder } from "../../../support/test-folder.js";

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
