// Makes dist/, which is published: bundles of the package's doors and programs, their types, and
// the examples that `cuda-ipc demo` runs. With --if-changed it does nothing if all of it is newer
// than what it is made from: `npx cuda-ipc` in a clone would otherwise repeat the build.
import { spawnSync } from "node:child_process";
import { chmodSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { writeDeclarations } from "./declarations.mjs";
import { bundleDoors, bundlePrograms } from "./programs.mjs";

/** Written last. */
const LAST = "dist/cli/launch.cjs";
const SOURCES = [
  ...["src", "examples", "scripts", "package.json", "package-lock.json"],
  ...["tsconfig.json", "tsconfig.build.json", "tsconfig.examples.json"],
];

if (process.argv.includes("--if-changed") && isCurrent()) process.exit();

rmSync("dist", { recursive: true, force: true });
// `npm run typecheck` checks the sources. Examples are checked here against the published types.
writeDeclarations();
const tsc = spawnSync(
  process.execPath,
  ["node_modules/typescript/bin/tsc", "-p", "tsconfig.examples.json"],
  { stdio: "inherit" },
);
if (tsc.status !== 0) process.exit(tsc.status ?? 1);
await bundleDoors("dist");
await bundlePrograms("dist");
chmodSync(LAST, 0o755);

function isCurrent() {
  const builtAt = statSync(LAST, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return SOURCES.every((path) => changedAt(path) < builtAt);
}

/** When a file, or a folder with all in it, was changed last. */
function changedAt(path) {
  const stat = statSync(path);
  if (!stat.isDirectory()) return stat.mtimeMs;
  const inside = readdirSync(path, { withFileTypes: true })
    // Python writes its caches there when the examples run.
    .filter(({ name }) => name !== "__pycache__")
    .map(({ name }) => changedAt(join(path, name)));
  return Math.max(stat.mtimeMs, ...inside);
}
