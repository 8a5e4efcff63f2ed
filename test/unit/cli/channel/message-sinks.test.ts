import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  lchownSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { describe, it } from "node:test";
import type { ReceivedSlot } from "../../../../src/channel/received-slot.js";
import { filePattern, fileSink, pathOf } from "../../../../src/cli/channel/message-sinks.js";
import type { CommandContext } from "../../../../src/cli/command-context.js";
import { UsageError } from "../../../../src/cli/terminal/error-report.js";
import { skipUnlessRoot } from "../../../support/other-user.js";
import { TestFolder } from "../../../support/test-folder.js";

describe("the path of a message", () => {
  for (const [pattern, path] of [
    ["frame-%d.npy", "frame-42.npy"],
    ["%06d", "000042"],
    ["a/%01d%", "a/42%"],
  ] as const) {
    it(`is ${path} for ${pattern}`, () => {
      const found = filePattern(pattern);
      assert.ok(found !== undefined);
      assert.equal(pathOf(found, 42), path);
    });
  }

  it("has no number without %d, and refuses two", () => {
    assert.equal(filePattern("frame.npy"), undefined);
    assert.throws(() => filePattern("%d/%d"), UsageError);
  });
});

async function receiveInto(path: string, force: boolean, text: string): Promise<void> {
  const context = { signal: new AbortController().signal } as CommandContext;
  const bytes = Buffer.from(text);
  const slot = { byteLength: bytes.byteLength, bytes, array: { device: { cpuVisible: true } } };
  const sink = await fileSink(path, force, "raw", context);
  try {
    await sink.take(slot as unknown as ReceivedSlot);
  } finally {
    await sink.close();
  }
}

describe("one file for all messages", () => {
  it("is written behind links, and replaced with force", async () => {
    using folder = new TestFolder();
    symlinkSync("file", folder.file("link"));
    await receiveInto(folder.file("link"), false, "first");
    await assert.rejects(receiveInto(folder.file("link"), false, "x"), { code: "FILE_EXISTS" });
    await receiveInto(folder.file("link"), true, "new");
    assert.equal(readFileSync(folder.file("file"), "utf8"), "new");
  });

  it("may be a pipe, by its own name or by that of a descriptor", async () => {
    using folder = new TestFolder();
    execFileSync("mkfifo", [folder.file("pipe")]);
    // Open for both, so that no end waits for the other.
    const pipe = await open(folder.file("pipe"), "r+");
    try {
      for (const path of [folder.file("pipe"), `/dev/fd/${pipe.fd}`]) {
        await receiveInto(path, true, "text");
        const { bytesRead, buffer } = await pipe.read(Buffer.alloc(10), 0, 10);
        assert.equal(buffer.toString("utf8", 0, bytesRead), "text");
      }
    } finally {
      await pipe.close();
    }
  });

  it("is no link of another user in a folder that all may write to", {
    skip: skipUnlessRoot,
  }, async () => {
    using folder = new TestFolder();
    for (const name of ["home", "all"]) mkdirSync(folder.file(name));
    chmodSync(folder.file("all"), 0o777);
    writeFileSync(folder.file("home/keys"), "old");
    for (const [name, content] of Object.entries({ file: "../home/keys", folder: "../home" })) {
      symlinkSync(content, folder.file(`all/${name}`));
      lchownSync(folder.file(`all/${name}`), 12_345, 12_345);
    }
    for (const name of ["all/file", "all/folder/keys"]) {
      await assert.rejects(receiveInto(folder.file(name), true, "new"), {
        code: "PERMISSION_DENIED",
        message: /the symbolic link ".*" belongs to user 12345/,
      });
    }
    assert.equal(readFileSync(folder.file("home/keys"), "utf8"), "old");
  });
});
