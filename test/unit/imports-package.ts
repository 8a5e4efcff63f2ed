// Imports one file of the package and reports the libraries that this mapped. Arguments: a file
// below src, and the name of an export to call.
import { readFileSync } from "node:fs";

const [, , file = "index.js", call] = process.argv;
const before = libraries();
const door = (await import(new URL(`../../src/${file}`, import.meta.url).href)) as Record<
  string,
  () => unknown
>;
if (call !== undefined) door[call]?.();
process.stdout.write(JSON.stringify([...libraries()].filter((library) => !before.has(library))));

function libraries(): Set<string> {
  const maps = readFileSync("/proc/self/maps", "utf8");
  return new Set([...maps.matchAll(/\/\S+\.(?:so|node)(?:\.[\d.]+)?$/gm)].map(([path]) => path));
}
