import assert from "node:assert/strict";
import { chmodSync, lchownSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { describe, it } from "node:test";
import { tokenIn } from "../../../src/web/token-file.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestFolder } from "../../support/test-folder.js";

describe("the token of the dashboard", () => {
  it("is not written behind a link of another user in a folder that all may write to", {
    skip: skipUnlessRoot,
  }, async () => {
    using folder = new TestFolder();
    for (const name of ["home", "all"]) mkdirSync(folder.file(name));
    chmodSync(folder.file("all"), 0o777);
    symlinkSync(folder.file("home"), folder.file("all/link"));
    lchownSync(folder.file("all/link"), 12_345, 12_345);
    await assert.rejects(async () => tokenIn(folder.file("all/link/token")), {
      code: "PERMISSION_DENIED",
      message: /the symbolic link ".*" belongs to user 12345/,
    });
    assert.deepEqual(readdirSync(folder.file("home")), []);
    chmodSync(folder.file("all"), 0o755);
    const token = await tokenIn(folder.file("all/link/token"));
    assert.equal(await tokenIn(folder.file("home/token")), token);
  });
});
