import assert from "node:assert/strict";
import { openSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import { hasCode } from "../../../src/base/errors.js";
import { createConstantFile, createMemoryFile } from "../../../src/os/memory-file.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import { type SendFileOptions, sendFile } from "../../../src/os/send-file.js";
import { checkLeaks } from "../../support/leak-check.js";
import { asOtherUser, skipUnlessRoot } from "../../support/other-user.js";
import { TestFolder } from "../../support/test-folder.js";

const MiB = 1024 * 1024;

function options(more: Partial<SendFileOptions> = {}): SendFileOptions {
  return {
    deadline: new Deadline("copy", {}, Number.POSITIVE_INFINITY),
    sourceName: "source.bin",
    ...more,
  };
}

describe("sendFile", () => {
  checkLeaks();

  it("copies the range in pieces, and leaves both file positions unchanged", async () => {
    using folder = new TestFolder();
    const content = Buffer.alloc(33 * MiB, "0123456789abcdef!");
    writeFileSync(folder.file("source.bin"), content);
    using source = new OwnedFd(openSync(folder.file("source.bin"), "r"));
    using target = createMemoryFile("test", 34 * MiB);
    const progress: number[] = [];
    const onPiece = (pieceBytes: number) => progress.push(pieceBytes);
    const byteLength = 32 * MiB + 5;
    await sendFile(
      { fd: target, byteOffset: 7 },
      { fd: source.number, byteOffset: 3 },
      byteLength,
      options({ onPiece }),
    );
    const copied = readFileSync(`/proc/self/fd/${target.number}`);
    assert.ok(copied.subarray(7, 7 + byteLength).equals(content.subarray(3, 3 + byteLength)));
    assert.ok(copied.subarray(0, 7).every((byte) => byte === 0));
    assert.ok(copied.subarray(7 + byteLength).every((byte) => byte === 0));
    assert.equal(
      progress.reduce((sum, pieceBytes) => sum + pieceBytes),
      byteLength,
    );
    assert.ok(progress.length > 2);
    for (const fd of [source, target]) {
      assert.match(readFileSync(`/proc/self/fdinfo/${fd.number}`, "utf8"), /^pos:\s+0$/m);
    }
  });

  it("throws INVALID_FILE with the file's name if the source ends early", async () => {
    using folder = new TestFolder();
    writeFileSync(folder.file("source.bin"), Buffer.alloc(20 * MiB));
    using source = new OwnedFd(openSync(folder.file("source.bin"), "r"));
    using target = createMemoryFile("test", 20 * MiB);
    const onPiece = () => truncateSync(folder.file("source.bin"), 16 * MiB);
    await assert.rejects(
      sendFile(
        { fd: target, byteOffset: 0 },
        { fd: source.number, byteOffset: 0 },
        20 * MiB,
        options({ onPiece }),
      ),
      (error) => hasCode(error, "INVALID_FILE") && /source\.bin/.test(error.message),
    );
  });

  it("stops between pieces if it is aborted", async () => {
    using source = createMemoryFile("test", 64 * MiB);
    using target = createMemoryFile("test", 64 * MiB);
    const controller = new AbortController();
    const deadline = new Deadline("copy", { signal: controller.signal }, Number.POSITIVE_INFINITY);
    const progress: number[] = [];
    const onPiece = (pieceBytes: number) => {
      progress.push(pieceBytes);
      controller.abort();
    };
    const copy = sendFile(
      { fd: target, byteOffset: 0 },
      { fd: source.number, byteOffset: 0 },
      64 * MiB,
      options({ deadline, onPiece }),
    );
    await assert.rejects(copy, (error) => hasCode(error, "ABORTED"));
    assert.equal(progress.length, 1);
  });

  it("fills a memory file even if its owner is not root", { skip: skipUnlessRoot }, async () => {
    using source = createConstantFile("test", Buffer.from("content"));
    using target = asOtherUser(() => createMemoryFile("test", 7));
    await asOtherUser(() =>
      sendFile({ fd: target, byteOffset: 0 }, { fd: source.number, byteOffset: 0 }, 7, options()),
    );
    assert.equal(readFileSync(`/proc/self/fd/${target.number}`, "utf8"), "content");
  });

  it("throws the system's error of the pool thread", async () => {
    using source = createMemoryFile("test", 4096);
    using target = createConstantFile("test", new Uint8Array(4096));
    const copy = sendFile(
      { fd: target, byteOffset: 0 },
      { fd: source.number, byteOffset: 0 },
      4096,
      options(),
    );
    await assert.rejects(
      copy,
      (error) => hasCode(error, "PERMISSION_DENIED") && /EPERM/.test(error.message),
    );
  });

  it("leaves nothing open if the second file cannot be opened", async () => {
    using target = createMemoryFile("test", 4096);
    const copy = sendFile(
      { fd: target, byteOffset: 0 },
      { fd: 99_999, byteOffset: 0 },
      4096,
      options(),
    );
    await assert.rejects(copy, /ENOENT/);
  });
});
