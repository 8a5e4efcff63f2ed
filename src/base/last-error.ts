/** Why a program of ours died, from what it wrote. */

const LENGTH_MAX = 300;

/** The last line that names an error; else the last line; empty if there is none. */
export function lastError(text: string): string {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return (namedError(text) || (lines.at(-1) ?? "")).trim().slice(0, LENGTH_MAX);
}

/** The last line that names an error; empty if none does. For text that others write to, too. */
export function namedError(text: string): string {
  const named = text.split("\n").findLast((line) => /^(\S*Error|Error)\b.*: /.test(line));
  return (named ?? "").trim().slice(0, LENGTH_MAX);
}
