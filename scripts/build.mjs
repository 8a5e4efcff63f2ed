// Makes dist/, which is published: bundles of the package's doors and programs, their types, and
// the examples that `cuda-ipc demo` runs.
import { spawnSync } from "node:child_process";
import { chmodSync, rmSync } from "node:fs";
import { writeDeclarations } from "./declarations.mjs";
import { bundleDoors, bundlePrograms } from "./programs.mjs";

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
chmodSync("dist/cli/launch.cjs", 0o755);
