/**
 * What the hub calls the descriptors that a service manager or its keeper keeps: the thing that they are of, and which of its
 * descriptors each one is. WHY short: the names of all descriptors go to the next hub through its environment.
 */

/** `listener`, `lock`, the memory of object 123 (`o3f`), the process of session 124 (`p3g`). */
export type StoredKey = string;

export const LISTENER: StoredKey = "listener";
/** A listening socket that somebody else made and passed: its file is not the hub's to remove. */
export const PASSED_LISTENER: StoredKey = "passed-listener";
export const LOCK: StoredKey = "lock";

const NAME = /^([op])([1-9a-z][0-9a-z]{0,10})(?:\.([1-9a-z][0-9a-z]?))?$/;

export function objectKey(object: number): StoredKey {
  return `o${object.toString(36)}`;
}

export function sessionKey(session: number): StoredKey {
  return `p${session.toString(36)}`;
}

/** The first descriptor has the name of the thing alone; most things have only that one. */
export function nameOf(key: StoredKey, index: number): string {
  return index === 0 ? key : `${key}.${index.toString(36)}`;
}

export interface StoredName {
  readonly of: "object" | "session";
  readonly id: number;
  readonly index: number;
}

export function keyOf({ of, id }: Pick<StoredName, "of" | "id">): StoredKey {
  return of === "object" ? objectKey(id) : sessionKey(id);
}

/** Undefined for a name of something else. */
export function parseStoredName(name: string): StoredName | undefined {
  const [, kind, id, index = "0"] = NAME.exec(name) ?? [];
  if (id === undefined) return undefined;
  return { of: kind === "o" ? "object" : "session", id: Number.parseInt(id, 36), index: Number.parseInt(index, 36) };
}
