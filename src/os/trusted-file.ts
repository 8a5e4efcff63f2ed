/**
 * Files that decide something for this process: a configuration, a token, a handle. Nobody but
 * their owner may have written them, and the owner is this user or root.
 */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";
import { ownUid } from "./runtime-folder.js";

const ROOT = 0;
const OTHERS_MAY_WRITE = 0o022;
const ALL_MAY_USE = 0o007;

/** Opening a FIFO, or a file with a lease on it, must not wait. A terminal is not taken over. */
export const TRUSTED_READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

export interface Distrust {
  readonly about: "type" | "owner" | "mode";
  /** `it belongs to user 1001, wanted a file of root or of user 1000` */
  readonly found: string;
}

/**
 * Why the content of a file cannot be trusted. Give it the facts of the open file: another file may
 * take its place between a look at the path and the read.
 * @param secret true if only its owner and its group may read it
 */
export function distrustOf(stats: Stats, { secret = false } = {}): Distrust | undefined {
  if (!stats.isFile()) return { about: "type", found: "it is not a plain file" };
  if (stats.uid !== ROOT && stats.uid !== ownUid()) {
    const wanted = ownUid() === ROOT ? "root" : `root or of user ${ownUid()}`;
    return {
      about: "owner",
      found: `it belongs to user ${stats.uid}, wanted a file of ${wanted}`,
    };
  }
  const mode = `0${(stats.mode & 0o777).toString(8)}`;
  if ((stats.mode & OTHERS_MAY_WRITE) !== 0) {
    const wanted = `one that only its owner can write (chmod ${secret ? 640 : 644})`;
    return { about: "mode", found: `its mode is ${mode}, wanted ${wanted}` };
  }
  if (secret && (stats.mode & ALL_MAY_USE) !== 0) {
    const wanted = "one that keeps out all other users (chmod 640)";
    return { about: "mode", found: `its mode is ${mode}, wanted ${wanted}` };
  }
  return undefined;
}

/**
 * The first bytes of a file, at most `bytesMax`.
 * @param refuse makes the error for a file that cannot be trusted
 * @throws what `refuse` returns, or an error of Node.js
 */
export function readTrustedFile(
  path: string,
  bytesMax: number,
  refuse: (distrust: Distrust) => Error,
  options: { readonly secret?: boolean } = {},
): Buffer {
  const fd = openSync(path, TRUSTED_READ);
  try {
    const distrust = distrustOf(fstatSync(fd), options);
    if (distrust !== undefined) throw refuse(distrust);
    const bytes = Buffer.alloc(bytesMax);
    let byteLength = 0;
    while (byteLength < bytesMax) {
      const bytesRead = readSync(fd, bytes, byteLength, bytesMax - byteLength, byteLength);
      if (bytesRead === 0) break;
      byteLength += bytesRead;
    }
    return bytes.subarray(0, byteLength);
  } finally {
    closeSync(fd);
  }
}
