/** Opens files that are written piece by piece, and that others may read meanwhile. */
import { constants } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { CudaIpcError } from "../base/errors.js";
import { behindLinks, holdFolder } from "../os/behind-links.js";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants;

/**
 * Opens a new, empty file for writing. The caller closes it.
 * @param force replaces the content of an existing file, or writes to an existing pipe or device
 * @throws PERMISSION_DENIED for a link of another user, or an error of Node.js
 */
export async function openOutputFile(path: string, force: boolean): Promise<FileHandle> {
  const real = await behindLinks(path);
  if (force && (await isSpecial(path))) return openSpecial(path);
  await using folder = await holdFolder(dirname(real));
  const flags = O_WRONLY | O_CREAT | O_NOFOLLOW | (force ? O_TRUNC : O_EXCL);
  return await open(join(folder.path, basename(real)), flags, 0o666);
}

/** A link such as /dev/stdout may lead to a pipe, which has no path without links. */
async function isSpecial(path: string): Promise<boolean> {
  const facts = await stat(path).catch(() => undefined);
  return facts !== undefined && !facts.isFile() && !facts.isDirectory();
}

async function openSpecial(path: string): Promise<FileHandle> {
  const file = await open(path, O_WRONLY);
  if (!(await file.stat()).isFile()) return file;
  await file.close();
  throw new CudaIpcError(
    "PERMISSION_DENIED",
    `Cannot write ${JSON.stringify(path)}: a file took the place of a pipe or device`,
  );
}
