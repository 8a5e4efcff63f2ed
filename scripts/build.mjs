// Makes dist/, which is published: bundles of the package's doors and programs, their types, the
// manual page, and the examples that `cuda-ipc demo` runs. With --if-changed it does nothing if no
// source has changed since the last complete build: `npx cuda-ipc` in a clone would otherwise repeat
// the build.
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { changedAt } from "./changed-at.mjs";
import { writeDeclarations } from "./declarations.mjs";
import { bundleDoors, bundlePrograms } from "./programs.mjs";

const LAUNCHER = "dist/cli/launch.cjs";
/** Written when a build is complete. */
const STAMP = "build/built";
const SOURCES = [
  ...["src", "examples", "scripts", "package.json", "package-lock.json"],
  ...["tsconfig.json", "tsconfig.build.json", "tsconfig.examples.json"],
];

if (process.argv.includes("--if-changed") && isCurrent()) process.exit();

rmSync(STAMP, { force: true });
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
chmodSync(LAUNCHER, 0o755);
writeFileSync("dist/cuda-ipc.1", execFileSync(process.execPath, [LAUNCHER, "manual"]));
mkdirSync("build", { recursive: true });
writeFileSync(STAMP, "");

function isCurrent() {
  const builtAt = changedAt(STAMP);
  return existsSync(LAUNCHER) && SOURCES.every((path) => changedAt(path) < builtAt);
}
