import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
} from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { type NewFolder, writeFolderAtomically } from "../../../src/files/atomic-write.js";
import { scratchFolder } from "./scratch-folder.js";

const writesTwo = async (folder: NewFolder): Promise<void> => {
  await folder.writeFile("a", (file) => file.writeFile("1"));
  await folder.writeFile("b", (file) => file.writeFile("2"));
};

describe("writeFolderAtomically", () => {
  it("shows the folder only when all of its files are whole", async () => {
    using scratch = scratchFolder();
    const path = join(scratch.path, "model");
    await writeFolderAtomically(path, {}, async (folder) => {
      await writesTwo(folder);
      assert.equal(existsSync(path), false);
    });
    assert.deepEqual(readdirSync(path), ["a", "b"]);
    assert.equal(readFileSync(join(path, "b"), "utf8"), "2");
    assert.deepEqual(readdirSync(scratch.path), ["model"]);
  });

  it("replaces an empty folder, and refuses all else before it writes", async () => {
    using scratch = scratchFolder();
    mkdirSync(join(scratch.path, "empty"));
    await writeFolderAtomically(join(scratch.path, "empty"), { durable: false }, writesTwo);
    assert.deepEqual(readdirSync(join(scratch.path, "empty")), ["a", "b"]);
    scratch.write("file", "x");
    symlinkSync("nowhere", join(scratch.path, "link"));
    for (const name of ["empty", "file", "link"]) {
      await assert.rejects(
        writeFolderAtomically(join(scratch.path, name), {}, async () => assert.fail("called")),
        { code: "FILE_EXISTS", message: /something is there already/ },
      );
    }
    assert.deepEqual(readdirSync(scratch.path), ["empty", "file", "link"]);
  });

  const skip = process.geteuid?.() !== 0 && "only root can give a link away";
  for (const mode of [0o1777, 0o777]) {
    const kind = mode === 0o777 ? "a folder" : "a sticky folder";
    it(`follows no link of another user in ${kind} that all may write to`, { skip }, async () => {
      using scratch = scratchFolder();
      const [home, all] = [join(scratch.path, "home"), join(scratch.path, "all")];
      mkdirSync(home);
      mkdirSync(all);
      chmodSync(all, mode);
      symlinkSync(home, join(all, "link"));
      const path = join(all, "link", "model");
      lchownSync(join(all, "link"), 12_345, 12_345);
      await assert.rejects(writeFolderAtomically(path, {}, writesTwo), {
        code: "PERMISSION_DENIED",
        message: /^Cannot write .*the symbolic link ".*" belongs to user 12345/,
      });
      assert.deepEqual(readdirSync(home), []);
      chmodSync(all, 0o755);
      await writeFolderAtomically(path, {}, writesTwo);
      assert.deepEqual(readdirSync(join(home, "model")), ["a", "b"]);
    });
  }

  it("refuses a target that appears while it writes, and leaves nothing behind", async () => {
    using scratch = scratchFolder();
    const path = join(scratch.path, "model");
    for (const appears of [
      () => scratch.write("model", "x"),
      () => mkdirSync(join(path, "sub"), { recursive: true }),
    ]) {
      const attempt = writeFolderAtomically(path, {}, async (folder) => {
        await writesTwo(folder);
        appears();
      });
      await assert.rejects(attempt, { code: "FILE_EXISTS" });
      assert.deepEqual(readdirSync(scratch.path), ["model"]);
      scratch.remove("model");
    }
  });

  it("leaves nothing behind if a file cannot be written", async () => {
    using scratch = scratchFolder();
    const full = Object.assign(new Error("ENOSPC: no space left on device, write"), {
      errno: -28,
      code: "ENOSPC",
      syscall: "write",
    });
    const attempt = writeFolderAtomically(join(scratch.path, "model"), {}, async (folder) => {
      await folder.writeFile("a", (file) => file.writeFile("1"));
      await folder.writeFile("b", async () => {
        throw full;
      });
    });
    await assert.rejects(attempt, { code: "DISK_FULL", errnoName: "ENOSPC" });
    assert.deepEqual(readdirSync(scratch.path), []);
  });

  it("throws INVALID_FILE if the parent folder does not exist", async () => {
    using scratch = scratchFolder();
    await assert.rejects(
      writeFolderAtomically(join(scratch.path, "absent", "model"), {}, writesTwo),
      {
        code: "INVALID_FILE",
      },
    );
  });
});
