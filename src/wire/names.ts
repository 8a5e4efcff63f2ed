/** The names of objects. They need no quoting in messages, file names, terminals and shells. */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { shownValue } from "../base/shown-value.js";

/** The rule for names, to be put at the end of an error. */
export const nameRule =
  `1 to ${limits.nameBytesMax} letters, digits, '.', '_', '-' or ':', ` +
  "the first a letter, digit or '_'";

const NAME = /^[A-Za-z0-9_][A-Za-z0-9._:-]*$/;

export function isValidName(name: string): boolean {
  return typeof name === "string" && name.length <= limits.nameBytesMax && NAME.test(name);
}

/** @throws INVALID_NAME */
export function checkName(name: string): string {
  if (isValidName(name)) return name;
  if (typeof name !== "string")
    throw new TypeError(`name must be a string, not ${shownValue(name)}`);
  const shown = JSON.stringify(name.length > 60 ? `${name.slice(0, 60)}...` : name);
  throw new CudaIpcError("INVALID_NAME", `Cannot use ${shown} as a name: wanted ${nameRule}`);
}
