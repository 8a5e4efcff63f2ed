import assert from "node:assert/strict";
import { existsSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { SeqpacketListener } from "../../../src/os/seqpacket-listener.js";
import { SocketClaim } from "../../../src/os/socket-file.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestFolder } from "../../support/test-folder.js";

describe("SocketClaim", () => {
  checkLeaks();

  it("has one holder at a time, and leaves nothing behind", () => {
    using folder = new TestFolder();
    const path = folder.file("x.sock");
    const claim = SocketClaim.tryMake(path);
    assert.ok(claim !== undefined);
    assert.equal(SocketClaim.tryMake(path), undefined);
    claim.release();
    claim.release();
    assert.equal(existsSync(`${path}.lock`), false);
    const next = SocketClaim.tryMake(path);
    assert.ok(next !== undefined);
    next.release();
  });

  it("removes a stale socket, and no other file", () => {
    using folder = new TestFolder();
    const path = folder.file("x.sock");
    SeqpacketListener.listen(path).close();
    assert.ok(existsSync(path));
    SocketClaim.tryMake(path)?.release();
    assert.equal(existsSync(path), false);
    writeFileSync(path, "precious");
    assert.throws(
      () => SocketClaim.tryMake(path),
      (error) => hasCode(error, "FILE_EXISTS"),
    );
    assert.ok(existsSync(path));
    assert.ok(!existsSync(`${path}.lock`), "a refused claim leaves no lock");
  });

  it("does not follow a link to lock its target", () => {
    using folder = new TestFolder();
    writeFileSync(folder.file("elsewhere"), "");
    symlinkSync(folder.file("elsewhere"), folder.file("x.sock.lock"));
    assert.throws(
      () => SocketClaim.tryMake(folder.file("x.sock")),
      (error) =>
        hasCode(error, "PERMISSION_DENIED") &&
        /it is a symbolic link and not a plain file/.test(error.message),
    );
  });

  it("can be made again after somebody removed its lock file", () => {
    using folder = new TestFolder();
    const path = folder.file("x.sock");
    const claim = SocketClaim.tryMake(path);
    unlinkSync(`${path}.lock`);
    claim?.release();
    SocketClaim.tryMake(path)?.release();
    assert.equal(existsSync(`${path}.lock`), false);
  });
});
