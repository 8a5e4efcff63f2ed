/** This package as its own code sees it: its programs, its version, and whether it was bundled. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * The path of a program of this package; undefined if a bundler moved this file.
 * @param name from the root of the compiled sources, such as `hub/main.js`
 */
export function ownProgram(name: string): string | undefined {
  // Compiled alone, this file is in base/. In a bundle it is in the root.
  return [`../${name}`, `./${name}`]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}

let known: string | undefined;

/** The version in package.json; "unknown" if a bundler moved this file. */
export function packageVersion(): string {
  known ??= readVersion();
  return known;
}

function readVersion(): string {
  // dist/index.js, dist/base and build/src/base have different depths below package.json.
  for (const path of ["../package.json", "../../package.json", "../../../package.json"]) {
    const version = tryRead(path);
    if (version !== undefined) return version;
  }
  return "unknown";
}

function tryRead(path: string): string | undefined {
  try {
    // WHY inside: a CommonJS bundle has no URL of its own, so this throws there.
    const manifest: unknown = JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
    const isOurs =
      typeof manifest === "object" &&
      manifest !== null &&
      "name" in manifest &&
      manifest.name === "cuda-ipc";
    return isOurs && "version" in manifest ? String(manifest.version) : undefined;
  } catch {
    // Try the next path. An unknown version harms nobody.
    return undefined;
  }
}

/** The remedy if a bundler put this package into a user's file, which then lacks koffi. */
export const leaveOutOfBundle =
  "Leave cuda-ipc out of the bundle (esbuild: --external:cuda-ipc; Rollup: external: " +
  "[/^cuda-ipc/]; webpack: externals)";
