/** Why a program of ours died, from what it wrote. */

const LENGTH_MAX = 300;

/** The last line that names an error; else the last line; empty if there is none. */
export function lastError(text: string): string {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const named = lines.findLast((line) => /^(\S*Error|Error)\b.*: /.test(line));
  return (named ?? lines.at(-1) ?? "").trim().slice(0, LENGTH_MAX);
}
