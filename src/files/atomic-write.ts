/**
 * Writing a file so that its name is only ever seen with the whole content: a temporary file in the same folder, fsync,
 * then a link or rename. A crash can leave the temporary file, never half of the real one.
 */
import { randomBytes } from "node:crypto";
import { type FileHandle, link, open, readlink, realpath, rename, stat, unlink } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { messageOf, SystemError } from "../base/errors.js";
import { fileSystemError } from "./file-errors.js";

export interface AtomicWriteOptions {
  /** Replaces a file that is there already, keeping its mode; otherwise that is refused, also when it appears late. */
  readonly force?: boolean | undefined;
  /** Whether it survives a power cut once this resolves (default); a disk that is waited for takes only so many files a second. */
  readonly durable?: boolean | undefined;
}

/**
 * Calls `write` with a new, empty file, open for reading and writing, and gives it the name `path` when that is done.
 * The handle is closed here. When `write` throws, nothing is left behind; a failed system call within it is mapped too.
 * A symbolic link at `path` is followed, also to where nothing is yet.
 * @returns what `write` returned
 * @throws SystemError `FILE_EXISTS`, `DISK_FULL`, `PERMISSION_DENIED`, `INVALID_FILE` when there is no such folder
 */
export async function writeFileAtomically<T>(
  path: string,
  options: AtomicWriteOptions,
  write: (file: FileHandle) => Promise<T>,
): Promise<T> {
  try {
    const { force = false, durable = true } = options;
    const { target, mode } = await checkTarget(path, force);
    const temporary = join(dirname(target), `.cuda-ipc-${randomBytes(8).toString("hex")}.tmp`);
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
    if (durable) await syncFolder(dirname(target));
    return result;
  } catch (error) {
    throw fileSystemError(`write ${JSON.stringify(path)}`, error);
  }
}

interface Target {
  /** The path behind symbolic links. */
  readonly target: string;
  /** Permissions of the file that is replaced. */
  readonly mode?: number;
}

/** Refuses early what the link at the end would refuse after all the data. */
async function checkTarget(path: string, force: boolean): Promise<Target> {
  let target: string;
  try {
    target = await realpath(path);
  } catch (error) {
    if (hasErrno(error, "ENOENT")) return { target: await behindLinks(path) };
    throw error;
  }
  const facts = await stat(target);
  if (force && facts.isFile()) return { target, mode: facts.mode & 0o777 };
  const problem = facts.isFile() ? "the file is there already" : "something other than a file is there";
  throw new SystemError("FILE_EXISTS", `Cannot write ${JSON.stringify(path)}: ${problem}`, {
    errno: 17,
    errnoName: "EEXIST",
    call: "stat",
  });
}

/** Where symbolic links lead to that end at nothing. They cannot go in circles: that is another error of `realpath`. */
async function behindLinks(path: string): Promise<string> {
  let content: string;
  try {
    content = await readlink(path);
  } catch (error) {
    // Not there, or, just made by somebody else, no link: the last step finds out.
    if (hasErrno(error, "ENOENT") || hasErrno(error, "EINVAL")) return path;
    throw error;
  }
  // WHY no join(): it would cut "sub/.." out, which leads elsewhere where "sub" is a link itself.
  return behindLinks(isAbsolute(content) ? content : `${await realpath(dirname(path))}/${content}`);
}

/** Makes the new name survive a power cut; file systems that cannot sync a folder keep names in their own way. */
export async function syncFolder(folder: string): Promise<void> {
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

/** Does the work, then the clean-up whatever came of it. The first failure is thrown, with the other one attached. */
export async function thenAlways<T>(work: () => Promise<T>, cleanUp: () => Promise<void>): Promise<T> {
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

export function hasErrno(error: unknown, errnoName: string): boolean {
  return error instanceof Error && "code" in error && error.code === errnoName;
}
