/**
 * The names under which a service manager or keeper keeps descriptors: the thing, and the index of
 * the descriptor. Short, because the next hub gets all names through its environment.
 */

/** `listener`, `lock`, `o3f` for the memory of object 123, `p3g` for the process of session 124. */
export type StoredKey = string;

export const LISTENER: StoredKey = "listener";
/** A listening socket that a socket unit made. The hub must not remove its file. */
export const PASSED_LISTENER: StoredKey = "passed-listener";
export const LOCK: StoredKey = "lock";

const NAME = /^([op])([1-9a-z][0-9a-z]{0,10})(?:\.([1-9a-z][0-9a-z]?))?$/;

export function objectKey(object: number): StoredKey {
  return `o${object.toString(36)}`;
}

export function sessionKey(session: number): StoredKey {
  return `p${session.toString(36)}`;
}

/** The first descriptor has the key itself as its name. Most things have only one. */
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

/** Undefined for other names. */
export function parseStoredName(name: string): StoredName | undefined {
  const [, kind, id, index = "0"] = NAME.exec(name) ?? [];
  if (id === undefined) return undefined;
  return {
    of: kind === "o" ? "object" : "session",
    id: Number.parseInt(id, 36),
    index: Number.parseInt(index, 36),
  };
}
