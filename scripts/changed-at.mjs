// When a file, or a folder with all in it, was changed last.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** In milliseconds since 1970; 0 if there is no such file. */
export function changedAt(path) {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat?.isDirectory()) return stat?.mtimeMs ?? 0;
  const inside = readdirSync(path)
    // Python writes its caches there when the examples run.
    .filter((name) => name !== "__pycache__")
    .map((name) => changedAt(join(path, name)));
  return Math.max(stat.mtimeMs, ...inside);
}
