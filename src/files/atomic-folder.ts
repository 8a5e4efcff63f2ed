/**
 * Writing a folder so that its name is only ever seen with all of its files: a temporary folder
 * beside it, fsync, then a rename. A crash can leave the temporary folder, never half of the real
 * one.
 */
import { randomBytes } from "node:crypto";
import { type FileHandle, lstat, mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { SystemError } from "../base/errors.js";
import { hasErrno, syncFolder, thenAlways } from "./atomic-write.js";
import { fileSystemError } from "./file-errors.js";

export interface NewFolder {
  /** Calls `write` with a new file of this name. The handle is closed here. */
  writeFile(name: string, write: (file: FileHandle) => Promise<void>): Promise<void>;
}

/**
 * Calls `write` with a new folder and gives it the name `path` when that is done. When `write`
 * throws, nothing is left behind.
 * @throws SystemError `FILE_EXISTS` for anything but an empty folder, `DISK_FULL`,
 * `PERMISSION_DENIED`, `INVALID_FILE`
 */
export async function writeFolderAtomically(
  path: string,
  { durable = true }: { readonly durable?: boolean | undefined },
  write: (folder: NewFolder) => Promise<void>,
): Promise<void> {
  const target = resolve(path);
  const parent = dirname(target);
  const temporary = join(parent, `.cuda-ipc-${randomBytes(8).toString("hex")}.tmp`);
  const writeFile: NewFolder["writeFile"] = async (name, writeContent) => {
    const file = await open(join(temporary, name), "wx+");
    const writeAndSync = async () => {
      await writeContent(file);
      if (durable) await file.sync();
    };
    await thenAlways(writeAndSync, () => file.close());
  };
  const publish = async (): Promise<void> => {
    await write({ writeFile });
    if (durable) await syncFolder(temporary);
    await rename(temporary, target);
  };
  try {
    await checkFree(target, path);
    await mkdir(temporary);
    await thenAlways(publish, () => rm(temporary, { recursive: true, force: true }));
    if (durable) await syncFolder(parent);
  } catch (error) {
    // What came in between while the files were written.
    if (hasErrno(error, "ENOTEMPTY") || hasErrno(error, "ENOTDIR")) await checkFree(target, path);
    throw fileSystemError(`write ${JSON.stringify(path)}`, error);
  }
}

/** A rename takes the place of an empty folder, and of nothing else. */
async function checkFree(target: string, path: string): Promise<void> {
  try {
    const facts = await lstat(target);
    if (facts.isDirectory() && (await readdir(target)).length === 0) return;
  } catch (error) {
    if (hasErrno(error, "ENOENT")) return;
    throw fileSystemError(`write ${JSON.stringify(path)}`, error);
  }
  throw new SystemError("FILE_EXISTS", `Cannot write ${JSON.stringify(path)}: something is there already`, {
    errno: 17,
    errnoName: "EEXIST",
    call: "stat",
  });
}
