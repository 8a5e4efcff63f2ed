/**
 * Writes files and folders so that their names only ever show whole content: write to a temporary
 * name beside the target, fsync, then link or rename. A crash can leave the temporary file or
 * folder, never half of the real one.
 */
import { randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import {
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  rename,
  rm,
  stat,
  unlink,
} from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { messageOf, SystemError } from "../base/errors.js";
import { behindLinks, holdFolder } from "../os/behind-links.js";
import { holdPath } from "../os/held-path.js";
import { fileSystemError } from "./file-errors.js";

export interface AtomicWriteOptions {
  /**
   * Replaces an existing file and keeps its mode. Otherwise an existing file is an error, even if
   * it appears late.
   */
  readonly force?: boolean | undefined;
  /**
   * Whether the file survives a power cut after this resolves. Default: true. Waiting for the disk
   * limits the files per second.
   */
  readonly durable?: boolean | undefined;
}

/**
 * Calls `write` with a new, empty file, open for reading and writing, then gives it the name
 * `path`. Closes the file. If `write` throws, nothing is left behind, and a failed system call in
 * it is mapped to a code too. A symbolic link at `path` is followed, even if its target does not
 * exist.
 * @returns what `write` returned
 * @throws SystemError `FILE_EXISTS`, `DISK_FULL`, `PERMISSION_DENIED`; `INVALID_FILE` if the folder
 * does not exist
 */
export async function writeFileAtomically<T>(
  path: string,
  options: AtomicWriteOptions,
  write: (file: FileHandle) => Promise<T>,
): Promise<T> {
  try {
    const { force = false, durable = true } = options;
    const real = await behindLinks(path);
    await using folder = await holdFolder(dirname(real));
    // A name with a slash at its end is a folder's, and then the system calls say so.
    const target = join(folder.path, basename(real), path.endsWith("/") ? "/" : "");
    const mode = await checkTarget(target, path, force);
    const temporary = join(folder.path, `.cuda-ipc-${randomBytes(8).toString("hex")}.tmp`);
    const file = await open(temporary, "wx+", mode ?? 0o666);
    const writeAndSync = async (): Promise<T> => {
      if (mode !== undefined) await file.chmod(mode);
      const result = await write(file);
      if (durable) await file.sync();
      return result;
    };
    const publish = async (): Promise<T> => {
      const result = await thenAlways(writeAndSync, () => file.close());
      await (force ? rename(temporary, target) : link(temporary, target));
      return result;
    };
    const result = await thenAlways(publish, () => removeIfThere(temporary));
    if (durable) await syncFolder(folder.path);
    return result;
  } catch (error) {
    throw fileSystemError(`write ${JSON.stringify(path)}`, error);
  }
}

/**
 * Fails early, before all data is written. The link at the end would fail anyway.
 * @returns the permissions of the file that is replaced
 */
async function checkTarget(
  target: string,
  path: string,
  force: boolean,
): Promise<number | undefined> {
  const facts = await statIfThere(target);
  if (facts === undefined) return undefined;
  if (force && facts.isFile()) return keptMode(facts);
  const problem = facts.isFile()
    ? "the file is there already"
    : "something other than a file is there";
  throw new SystemError("FILE_EXISTS", `Cannot write ${JSON.stringify(path)}: ${problem}`, {
    errno: 17,
    errnoName: "EEXIST",
    call: "stat",
  });
}

async function statIfThere(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (hasErrno(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** The new file is this user's. Another user's mode must not let others write to it. */
function keptMode({ mode, uid }: Stats): number {
  return mode & (uid === process.geteuid?.() ? 0o777 : 0o755);
}

export interface NewFolder {
  /** Calls `write` with a new file of this name, then closes it. */
  writeFile(name: string, write: (file: FileHandle) => Promise<void>): Promise<void>;
}

/**
 * Calls `write` with a new folder, then gives it the name `path`. If `write` throws, nothing is
 * left behind.
 * @throws SystemError `FILE_EXISTS` unless `path` is free or an empty folder, `DISK_FULL`,
 * `PERMISSION_DENIED`, `INVALID_FILE`
 */
export async function writeFolderAtomically(
  path: string,
  { durable = true }: { readonly durable?: boolean | undefined },
  write: (folder: NewFolder) => Promise<void>,
): Promise<void> {
  const named = resolve(path);
  try {
    await using parent = await holdFolder(await behindLinks(dirname(named)));
    const target = join(parent.path, basename(named));
    await checkFree(target, path);
    try {
      await makeFolder(parent.path, target, durable, write);
    } catch (error) {
      // Something appeared at the path while the files were written.
      if (hasErrno(error, "ENOTEMPTY") || hasErrno(error, "ENOTDIR")) await checkFree(target, path);
      throw error;
    }
  } catch (error) {
    throw fileSystemError(`write ${JSON.stringify(path)}`, error);
  }
}

async function makeFolder(
  parent: string,
  target: string,
  durable: boolean,
  write: (folder: NewFolder) => Promise<void>,
): Promise<void> {
  const temporary = join(parent, `.cuda-ipc-${randomBytes(8).toString("hex")}.tmp`);
  const publish = async (): Promise<void> => {
    await using folder = await holdPath(temporary, constants.O_DIRECTORY | constants.O_NOFOLLOW);
    const writeFile: NewFolder["writeFile"] = async (name, writeContent) => {
      const file = await open(join(folder.path, name), "wx+");
      const writeAndSync = async () => {
        await writeContent(file);
        if (durable) await file.sync();
      };
      await thenAlways(writeAndSync, () => file.close());
    };
    await write({ writeFile });
    if (durable) await syncFolder(folder.path);
    await rename(temporary, target);
  };
  await mkdir(temporary);
  await thenAlways(publish, () => rm(temporary, { recursive: true, force: true }));
  if (durable) await syncFolder(parent);
}

/** A rename replaces an empty folder, and nothing else. */
async function checkFree(target: string, path: string): Promise<void> {
  try {
    const facts = await lstat(target);
    if (facts.isDirectory() && (await readdir(target)).length === 0) return;
  } catch (error) {
    if (hasErrno(error, "ENOENT")) return;
    throw fileSystemError(`write ${JSON.stringify(path)}`, error);
  }
  throw new SystemError(
    "FILE_EXISTS",
    `Cannot write ${JSON.stringify(path)}: something is there already`,
    {
      errno: 17,
      errnoName: "EEXIST",
      call: "stat",
    },
  );
}

/**
 * Makes the new name survive a power cut. Some file systems cannot sync a folder, and store names
 * in their own way.
 */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  const sync = async () => {
    try {
      await handle.sync();
    } catch (error) {
      if (!hasErrno(error, "EINVAL")) throw error;
    }
  };
  await thenAlways(sync, () => handle.close());
}

async function removeIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!hasErrno(error, "ENOENT")) throw error;
  }
}

/**
 * Runs the clean-up after the work, also if it fails. The first error is thrown, with the second
 * attached.
 */
async function thenAlways<T>(work: () => Promise<T>, cleanUp: () => Promise<void>): Promise<T> {
  let result: T;
  try {
    result = await work();
  } catch (error) {
    try {
      await cleanUp();
    } catch (cleanUpError) {
      throw new AggregateError([error, cleanUpError], messageOf(error));
    }
    throw error;
  }
  await cleanUp();
  return result;
}

function hasErrno(error: unknown, errnoName: string): boolean {
  return error instanceof Error && "code" in error && error.code === errnoName;
}
