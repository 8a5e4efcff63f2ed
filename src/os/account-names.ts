/**
 * The numbers of users and groups, from /etc/passwd and /etc/group. Those of a directory service are not in these files; for them, and
 * where the files are missing as in a container, the numbers themselves are used.
 */
import { readFileSync } from "node:fs";
import { fromNodeError } from "./system-error.js";

/** The largest number is the kernel's "nobody in particular" and no user's. */
const ID_MAX = 2 ** 32 - 2;

/** Looks names up in one file; undefined for a name that is not there. A number stands for itself. */
export type IdLookup = (nameOrId: string | number) => number | undefined;

export function userIds(path = "/etc/passwd"): IdLookup {
  return lookupIn(path);
}

export function groupIds(path = "/etc/group"): IdLookup {
  return lookupIn(path);
}

/** The user's name, where /etc/passwd has one. */
export function userName(uid: number, path = "/etc/passwd"): string | undefined {
  return entries(path).find(({ id }) => id === uid)?.name;
}

function lookupIn(path: string): IdLookup {
  let ids: ReadonlyMap<string, number> | undefined;
  return (nameOrId) => {
    if (typeof nameOrId === "number") return isId(nameOrId) ? nameOrId : undefined;
    // WHY first of two: lines of the same name that follow are not seen by other programs either.
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
