/**
 * Which numbers of users and groups mean one user or group here. A user namespace need not map all: those that it does not map
 * all look like one number (65534), so that two strangers seem to be the same user.
 * https://man7.org/linux/man-pages/man7/user_namespaces.7.html
 */
import { readFileSync } from "node:fs";

const OVERFLOW_ID = 65_534;
/** All numbers but the last, which is none: what the machine's first user namespace maps. */
const ALL_IDS = 2 ** 32 - 1;

const known = new Map<string, boolean>();

export function isMappedUser(uid: number): boolean {
  return uid !== OVERFLOW_ID || mapsAll("/proc/self/uid_map");
}

export function isMappedGroup(gid: number): boolean {
  return gid !== OVERFLOW_ID || mapsAll("/proc/self/gid_map");
}

/** A user in words, for messages. */
export function userWords(uid: number): string {
  return isMappedUser(uid) ? `user ${uid}` : `a user outside of this user namespace (seen as ${uid})`;
}

function mapsAll(path: string): boolean {
  const before = known.get(path);
  if (before !== undefined) return before;
  const lines = readMap(path).trim().split("\n");
  const mapped = lines.reduce((sum, line) => sum + Number(line.trim().split(/\s+/)[2] ?? 0), 0);
  known.set(path, mapped >= ALL_IDS);
  return mapped >= ALL_IDS;
}

/** WHY nothing where it is not there: then the numbers cannot be told apart. */
function readMap(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
