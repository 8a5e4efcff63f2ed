import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
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
