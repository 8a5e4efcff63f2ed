import assert from "node:assert/strict";
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { CudaIpcError, SystemError } from "../../../src/base/errors.js";
import { writeFileAtomically } from "../../../src/files/atomic-write.js";
import { scratchFolder } from "./scratch-folder.js";

const writes = (content: string) => (file: FileHandle) => file.writeFile(content);

async function asUser(uid: number, work: () => Promise<void>): Promise<void> {
  process.seteuid?.(uid);
  try {
    await work();
  } finally {
    process.seteuid?.(0);
  }
}

describe("writeFileAtomically", () => {
  it("shows the file only when it is whole, and returns what the writer returned", async () => {
    using scratch = scratchFolder();
    const path = join(scratch.path, "x.npy");
    const result = await writeFileAtomically(path, {}, async (file) => {
      await file.writeFile("ab");
      assert.equal(existsSync(path), false);
      return 5;
    });
    assert.equal(result, 5);
    assert.equal(readFileSync(path, "utf8"), "ab");
    assert.deepEqual(readdirSync(scratch.path), ["x.npy"]);
  });

  it("refuses an existing file before it calls the writer", async () => {
    using scratch = scratchFolder();
    const path = scratch.write("x", "old");
    await assert.rejects(
      writeFileAtomically(path, {}, async () => assert.fail("called")),
      { code: "FILE_EXISTS", message: `Cannot write "${path}": the file is there already` },
    );
    assert.equal(readFileSync(path, "utf8"), "old");
  });

  it("refuses a file that appears while it writes", async () => {
    using scratch = scratchFolder();
    const path = join(scratch.path, "x");
    const attempt = writeFileAtomically(path, {}, async (file) => {
      await file.writeFile("new");
      writeFileSync(path, "theirs");
    });
    await assert.rejects(attempt, { code: "FILE_EXISTS" });
    assert.equal(readFileSync(path, "utf8"), "theirs");
    assert.deepEqual(readdirSync(scratch.path), ["x"]);
  });

  it("replaces a file with force, and keeps its mode and the link to it", async () => {
    using scratch = scratchFolder();
    const path = scratch.write("x", "old");
    chmodSync(path, 0o666);
    const link = join(scratch.path, "link");
    symlinkSync("x", link);
    await writeFileAtomically(link, { force: true }, writes("new"));
    assert.equal(readFileSync(path, "utf8"), "new");
    assert.equal(statSync(path).mode & 0o777, 0o666);
    assert.deepEqual(readdirSync(scratch.path), ["link", "x"]);
  });

  for (const force of [false, true]) {
    it(`follows links to where nothing is yet, ${force ? "with" : "without"} force`, async () => {
      using scratch = scratchFolder();
      for (const folder of ["links", "deep", "deep/inner", "deep/files"])
        mkdirSync(join(scratch.path, folder));
      symlinkSync("../deep/inner", join(scratch.path, "links", "sub"));
      symlinkSync("sub/../files/second", join(scratch.path, "links", "first"));
      symlinkSync(join(scratch.path, "deep", "x"), join(scratch.path, "deep", "files", "second"));
      await writeFileAtomically(join(scratch.path, "links", "first"), { force }, writes("new"));
      assert.ok(lstatSync(join(scratch.path, "links", "first")).isSymbolicLink());
      assert.ok(lstatSync(join(scratch.path, "deep", "x")).isFile());
      assert.equal(readFileSync(join(scratch.path, "links", "first"), "utf8"), "new");
      assert.deepEqual(readdirSync(join(scratch.path, "deep")), ["files", "inner", "x"]);
    });

    it(`refuses links in circles, and one into no folder, ${force ? "with" : "without"} force`, async () => {
      using scratch = scratchFolder();
      const path = join(scratch.path, "circle");
      symlinkSync("circle", path);
      symlinkSync("absent/x", join(scratch.path, "nowhere"));
      const neverCalled = async () => assert.fail("called");
      await assert.rejects(writeFileAtomically(path, { force }, neverCalled), {
        code: "INVALID_FILE",
      });
      const attempt = writeFileAtomically(join(scratch.path, "nowhere"), { force }, neverCalled);
      await assert.rejects(attempt, { code: "INVALID_FILE", errnoName: "ENOENT" });
    });
  }

  const skip = process.geteuid?.() !== 0 && "only root can give a link away";
  for (const mode of [0o1777, 0o777]) {
    const kind = mode === 0o777 ? "a folder" : "a sticky folder";
    it(`follows no link of another user in ${kind} that all may write to`, { skip }, async () => {
      using scratch = scratchFolder();
      const [home, all] = [join(scratch.path, "home"), join(scratch.path, "all")];
      mkdirSync(home);
      mkdirSync(all);
      chmodSync(all, mode);
      const theirs = (content: string, name: string) => {
        symlinkSync(content, join(all, name));
        lchownSync(join(all, name), 12_345, 12_345);
      };
      writeFileSync(join(home, "keys"), "old");
      theirs("../home/keys", "file");
      theirs("../home/absent", "nothing");
      theirs("../home", "folder");
      for (const path of ["file", "nothing", "folder/keys", "folder/absent"]) {
        const attempt = writeFileAtomically(join(all, path), { force: true }, writes("new"));
        await assert.rejects(attempt, {
          code: "PERMISSION_DENIED",
          message: /the symbolic link ".*" belongs to user 12345, and all users may write/,
        });
      }
      assert.deepEqual(readdirSync(home), ["keys"]);
      assert.equal(readFileSync(join(home, "keys"), "utf8"), "old");
      chmodSync(all, 0o775);
      await writeFileAtomically(join(all, "file"), { force: true }, writes("new"));
      assert.equal(readFileSync(join(home, "keys"), "utf8"), "new");
    });
  }

  it("follows links of its user, of the folder's owner and of root", { skip }, async () => {
    using scratch = scratchFolder();
    const [home, all] = [join(scratch.path, "home"), join(scratch.path, "all")];
    const [ownUser, owner] = [12_345, 12_346];
    mkdirSync(home);
    chmodSync(scratch.path, 0o755);
    chmodSync(home, 0o777);
    mkdirSync(all);
    chmodSync(all, 0o777);
    chownSync(all, owner, owner);
    for (const uid of [ownUser, owner, 0]) {
      const path = join(all, `of-${uid}`);
      symlinkSync(`../home/${uid}`, path);
      lchownSync(path, uid, uid);
      await asUser(ownUser, () => writeFileAtomically(path, {}, writes("new")));
      assert.equal(readFileSync(join(home, `${uid}`), "utf8"), "new");
    }
  });

  it("takes from another user's file no right to write", { skip }, async () => {
    using scratch = scratchFolder();
    const path = scratch.write("x", "old");
    chmodSync(path, 0o666);
    chownSync(path, 12_345, 12_345);
    await writeFileAtomically(path, { force: true }, writes("new"));
    assert.equal(statSync(path).mode & 0o777, 0o644);
  });

  it("refuses the file behind a link before the writer is called", async () => {
    using scratch = scratchFolder();
    scratch.write("x", "old");
    symlinkSync("x", join(scratch.path, "link"));
    const attempt = writeFileAtomically(join(scratch.path, "link"), {}, async () =>
      assert.fail("called"),
    );
    await assert.rejects(attempt, { code: "FILE_EXISTS" });
  });

  it("refuses a folder, even with force", async () => {
    using scratch = scratchFolder();
    const path = join(scratch.path, "folder");
    mkdirSync(path);
    const message = /something other than a file is there$/;
    await assert.rejects(writeFileAtomically(path, { force: true }, writes("")), {
      code: "FILE_EXISTS",
      message,
    });
  });

  it("leaves nothing behind and closes the handle when the writer fails", async () => {
    using scratch = scratchFolder();
    const failure = new Error("no");
    let handle: FileHandle | undefined;
    const attempt = writeFileAtomically(join(scratch.path, "x"), {}, async (file) => {
      handle = file;
      throw failure;
    });
    await assert.rejects(attempt, (error) => error === failure);
    assert.deepEqual(readdirSync(scratch.path), []);
    assert.equal(handle?.fd, -1);
  });

  it("leaves the old file whole if the writer fails with force", async () => {
    using scratch = scratchFolder();
    const path = scratch.write("x", "old");
    const attempt = writeFileAtomically(path, { force: true }, async (file) => {
      await file.writeFile("ne");
      throw new CudaIpcError("DEVICE_LOST", "gone");
    });
    await assert.rejects(attempt, { code: "DEVICE_LOST", message: "gone" });
    assert.equal(readFileSync(path, "utf8"), "old");
    assert.deepEqual(readdirSync(scratch.path), ["x"]);
  });

  it("throws DISK_FULL on a full disk", async () => {
    using scratch = scratchFolder();
    const attempt = writeFileAtomically(join(scratch.path, "x"), {}, async () => {
      const full = await open("/dev/full", "w");
      await full.writeFile("a").finally(() => full.close());
    });
    await assert.rejects(
      attempt,
      (error) =>
        error instanceof SystemError && error.code === "DISK_FULL" && error.errnoName === "ENOSPC",
    );
    assert.deepEqual(readdirSync(scratch.path), []);
  });

  it("syncs the content before the name appears", async () => {
    using scratch = scratchFolder();
    const path = join(scratch.path, "x");
    let synced = false;
    await writeFileAtomically(path, {}, async (file) => {
      const sync = file.sync.bind(file);
      file.sync = async () => {
        assert.equal(existsSync(path), false);
        await sync();
        synced = true;
      };
    });
    assert.ok(synced);
  });

  it("leaves nothing behind if the sync fails", async () => {
    using scratch = scratchFolder();
    const attempt = writeFileAtomically(join(scratch.path, "x"), {}, async (file) => {
      file.sync = () =>
        Promise.reject(
          Object.assign(new Error("EDQUOT: quota, fsync"), { errno: -122, code: "EDQUOT" }),
        );
    });
    await assert.rejects(attempt, { code: "DISK_FULL" });
    assert.deepEqual(readdirSync(scratch.path), []);
  });

  it("attaches an error of the clean-up to the first error", async () => {
    using scratch = scratchFolder();
    const failure = new Error("no");
    const attempt = writeFileAtomically(join(scratch.path, "x"), {}, async () => {
      const [temporary] = readdirSync(scratch.path);
      rmSync(join(scratch.path, temporary!));
      mkdirSync(join(scratch.path, temporary!));
      throw failure;
    });
    await assert.rejects(
      attempt,
      (error) => error instanceof AggregateError && error.errors[0] === failure,
    );
  });

  it("keeps the code of an error of ours that has an errno", async () => {
    using scratch = scratchFolder();
    const system = { errno: 2, errnoName: "ENOENT", call: "open" };
    const failure = new SystemError("NOT_FOUND", "theirs", system);
    const attempt = writeFileAtomically(join(scratch.path, "x"), {}, () => Promise.reject(failure));
    await assert.rejects(attempt, (error) => error === failure);
  });

  it("throws INVALID_FILE if the folder does not exist", async () => {
    await assert.rejects(
      writeFileAtomically("/nowhere/x", {}, writes("")),
      (error) =>
        error instanceof SystemError &&
        error.code === "INVALID_FILE" &&
        error.errnoName === "ENOENT",
    );
  });
});
