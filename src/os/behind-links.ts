/** Finds where a path leads, and does not follow links that another user may have laid there. */
import { constants, type Stats } from "node:fs";
import { lstat, readlink } from "node:fs/promises";
import { dirname } from "node:path";
import { CudaIpcError } from "../base/errors.js";
import { type HeldPath, holdPath } from "./held-path.js";
import { ROOT } from "./runtime-folder.js";

/** As the kernel's own: https://man7.org/linux/man-pages/man7/path_resolution.7.html */
const LINKS_MAX = 40;
const ALL_MAY_WRITE = 0o002;

/**
 * The absolute path behind all symbolic links of a path. Its last name need not exist.
 *
 * A link in a folder that all users may write to is followed only if this user, the folder's owner
 * or root made it. The kernel has this rule for sticky folders (`fs.protected_symlinks`). But some
 * systems switch it off, and a program that writes beside the target and renames never shows the
 * kernel the link.
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

/**
 * Holds a folder to write into.
 * @param path as `behindLinks` returned it: links that appeared in it since then are refused
 * @throws PERMISSION_DENIED, or an error of Node.js
 */
export async function holdFolder(path: string): Promise<HeldPath> {
  const folder = await holdPath(path, constants.O_DIRECTORY | constants.O_NOFOLLOW);
  if (comparable(folder.real) === comparable(path)) return folder;
  await folder[Symbol.asyncDispose]();
  throw replaced(path);
}

/** A file system that ignores case tells a name as an earlier program wrote it. */
function comparable(path: string): string {
  return path.normalize().toLowerCase();
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
  const trusted = [process.geteuid?.(), uid, ROOT];
  if ((mode & ALL_MAY_WRITE) !== 0 && !trusted.includes(facts.uid)) {
    const found =
      `the symbolic link ${JSON.stringify(link)} belongs to user ${facts.uid}, ` +
      "and all users may write to its folder. Give the path it leads to.";
    throw new CudaIpcError("PERMISSION_DENIED", `Cannot write ${JSON.stringify(path)}: ${found}`);
  }
  const content = await readlink(link);
  // WHY the time: no other user can put this link back without a change of it.
  const { ino, ctimeMs } = await lstat(link);
  if (ino === facts.ino && ctimeMs === facts.ctimeMs) return content;
  throw replaced(link);
}

function replaced(path: string): CudaIpcError {
  return new CudaIpcError(
    "PERMISSION_DENIED",
    `Cannot write to ${JSON.stringify(path)}: it was moved or replaced meanwhile`,
  );
}

function tooManyLinks(path: string): Error {
  const message = `ELOOP: too many symbolic links, lstat '${path}'`;
  return Object.assign(new Error(message), { errno: -40, code: "ELOOP", syscall: "lstat" });
}
