/** Finds where a path leads, and does not follow links that another user may have laid there. */
import type { Stats } from "node:fs";
import { lstat, readlink } from "node:fs/promises";
import { dirname } from "node:path";
import { CudaIpcError } from "../base/errors.js";

/** As the kernel's own: https://man7.org/linux/man-pages/man7/path_resolution.7.html */
const LINKS_MAX = 40;
const STICKY_FOR_ALL = 0o1002;

/**
 * The absolute path behind all symbolic links of a path. Its last name need not exist.
 *
 * A link in a sticky folder that all users may write to is followed only if this user or the
 * folder's owner made it. The kernel has the same rule (`fs.protected_symlinks`), but a program
 * that writes beside the target and renames never shows the kernel the link.
 * @throws PERMISSION_DENIED for a link of another user, or an error of Node.js
 */
export async function behindLinks(path: string): Promise<string> {
  const names = path.split("/");
  let at = path.startsWith("/") ? "/" : process.cwd();
  let links = 0;
  while (names.length > 0) {
    const name = names.shift();
    // WHY no join(): it would remove "sub/..", which leads elsewhere if "sub" is a link.
    if (name === "..") at = dirname(at);
    if (name === undefined || name === "" || name === "." || name === "..") continue;
    const next = at === "/" ? `/${name}` : `${at}/${name}`;
    const facts = await lstatOrAbsent(next, names);
    if (facts === undefined) return next;
    if (!facts.isSymbolicLink()) {
      at = next;
      continue;
    }
    links += 1;
    if (links > LINKS_MAX) throw tooManyLinks(path);
    const content = await readlinkOf(path, next, facts, at);
    if (content.startsWith("/")) at = "/";
    names.unshift(...content.split("/"));
  }
  return at;
}

async function lstatOrAbsent(path: string, rest: readonly string[]): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    const isAbsent = error instanceof Error && "code" in error && error.code === "ENOENT";
    // A missing folder is an error, a missing file is not.
    if (isAbsent && rest.length === 0) return undefined;
    throw error;
  }
}

async function readlinkOf(path: string, link: string, facts: Stats, folder: string) {
  const { mode, uid } = await lstat(folder);
  const isShared = (mode & STICKY_FOR_ALL) === STICKY_FOR_ALL;
  if (isShared && facts.uid !== process.geteuid?.() && facts.uid !== uid) {
    const found =
      `the symbolic link ${JSON.stringify(link)} belongs to user ${facts.uid}, ` +
      "and all users may write to its folder. Give the path it leads to.";
    throw new CudaIpcError("PERMISSION_DENIED", `Cannot write ${JSON.stringify(path)}: ${found}`);
  }
  return readlink(link);
}

function tooManyLinks(path: string): Error {
  const message = `ELOOP: too many symbolic links, lstat '${path}'`;
  return Object.assign(new Error(message), { errno: -40, code: "ELOOP", syscall: "lstat" });
}
