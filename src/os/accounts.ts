/**
 * Users and groups: numbers by name from /etc/passwd and /etc/group, and which numbers this user
 * namespace can tell apart. Accounts of a directory service, and those of a container without these
 * files, are known only by number.
 */
import { readFileSync } from "node:fs";
import { fromNodeError } from "./system-error.js";

/** The kernel uses the largest number for "no user". */
const ID_MAX = 2 ** 32 - 2;

/**
 * Looks a name up in one file. Returns undefined for an unknown name. A number stands for itself.
 */
export type IdLookup = (nameOrId: string | number) => number | undefined;

export function userIds(path = "/etc/passwd"): IdLookup {
  return lookupIn(path);
}

export function groupIds(path = "/etc/group"): IdLookup {
  return lookupIn(path);
}

/** The user's name if /etc/passwd has one. */
export function userName(uid: number, path = "/etc/passwd"): string | undefined {
  return entries(path).find(({ id }) => id === uid)?.name;
}

function lookupIn(path: string): IdLookup {
  let ids: ReadonlyMap<string, number> | undefined;
  return (nameOrId) => {
    if (typeof nameOrId === "number") return isId(nameOrId) ? nameOrId : undefined;
    // Of several lines with one name the first counts, as in other programs.
    ids ??= new Map(
      entries(path)
        .reverse()
        .map(({ name, id }) => [name, id]),
    );
    const number = /^\d+$/.test(nameOrId) ? Number(nameOrId) : undefined;
    return ids.get(nameOrId) ?? (number !== undefined && isId(number) ? number : undefined);
  };
}

function isId(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0 && value <= ID_MAX;
}

/** Both files begin their lines with a name, a password and a number. */
function entries(path: string): { readonly name: string; readonly id: number }[] {
  return read(path)
    .split("\n")
    .flatMap((line) => {
      const [name, , id] = line.split(":");
      return name && id && /^\d+$/.test(id) && isId(Number(id)) ? [{ name, id: Number(id) }] : [];
    });
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw fromNodeError(`read ${path}`, error);
  }
}

const OVERFLOW_ID = 65_534;
/**
 * The first user namespace of a machine maps all numbers except the last, which means "no user".
 */
const ALL_IDS = 2 ** 32 - 1;

const known = new Map<string, boolean>();

export function isMappedUser(uid: number): boolean {
  return uid !== OVERFLOW_ID || mapsAll("/proc/self/uid_map");
}

export function isMappedGroup(gid: number): boolean {
  return gid !== OVERFLOW_ID || mapsAll("/proc/self/gid_map");
}

/** A user in the words of an error. */
export function userWords(uid: number): string {
  return isMappedUser(uid)
    ? `user ${uid}`
    : `a user outside of this user namespace (seen as ${uid})`;
}

function mapsAll(path: string): boolean {
  const before = known.get(path);
  if (before !== undefined) return before;
  const lines = readMap(path).trim().split("\n");
  const mapped = lines.reduce((sum, line) => sum + Number(line.trim().split(/\s+/)[2] ?? 0), 0);
  known.set(path, mapped >= ALL_IDS);
  return mapped >= ALL_IDS;
}

/** Without the file, numbers cannot be told apart. */
function readMap(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
