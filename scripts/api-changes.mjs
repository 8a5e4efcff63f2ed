// Compares the committed API reports with those of the current types.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Returns one sentence for each file that differs, with its first differing line. */
export function changesBetween(committed, found) {
  const files = [committed, found].flatMap((folder) =>
    existsSync(folder) ? readdirSync(folder) : [],
  );
  return [...new Set(files)].flatMap((file) => {
    const [before, after] = [committed, found].map((folder) => linesOf(join(folder, file)));
    const length = Math.max(before.length, after.length);
    const line = Array.from({ length }, (_, i) => i).find((i) => before[i] !== after[i]);
    if (line === undefined) return [];
    const [said, is] = [before, after].map((lines) => JSON.stringify(lines[line] ?? "(nothing)"));
    return [`${join(committed, file)}:${line + 1} says ${said}, and the types say ${is}.`];
  });
}

function linesOf(path) {
  return existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
}
