/** The package's own version, as package.json says it. */
import { readFileSync } from "node:fs";

let known: string | undefined;

/** "unknown" where a bundler put this file elsewhere. */
export function packageVersion(): string {
  known ??= readVersion();
  return known;
}

function readVersion(): string {
  // WHY three places: dist/index.js, dist/base and build/src/base lie at different depths below package.json.
  for (const place of ["../package.json", "../../package.json", "../../../package.json"]) {
    const version = tryRead(place);
    if (version !== undefined) return version;
  }
  return "unknown";
}

function tryRead(place: string): string | undefined {
  try {
    // WHY in here: in a bundle of CommonJS a file does not know its place, and the URL cannot be made.
    const manifest: unknown = JSON.parse(readFileSync(new URL(place, import.meta.url), "utf8"));
    const isOurs =
      typeof manifest === "object" && manifest !== null && "name" in manifest && manifest.name === "cuda-ipc";
    return isOurs && "version" in manifest ? String(manifest.version) : undefined;
  } catch {
    // Not at this place; the next one is tried, and "unknown" is a version that harms nobody.
    return undefined;
  }
}
