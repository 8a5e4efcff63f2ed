/** Where the package's own programs lie, which it starts as processes: the hub, its keeper, actors of the command line. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * The path of a program of this package, or `undefined` if a bundler put this file elsewhere.
 * @param name from the root of the compiled sources, such as `hub/main.js`
 */
export function ownProgram(name: string): string | undefined {
  // WHY two places: compiled by itself this file lies in base/, and as a part of a bundle in the root.
  return [`../${name}`, `./${name}`]
    .map((place) => fileURLToPath(new URL(place, import.meta.url)))
    .find((path) => existsSync(path));
}
