// Makes dist/, which is published: bundles of the package's doors and programs, their types, and
// the examples that `cuda-ipc demo` runs.
import { spawnSync } from "node:child_process";
import { chmodSync, rmSync } from "node:fs";
import { build } from "esbuild";
import { writeDeclarations } from "./declarations.mjs";
import { DOORS } from "./doors.mjs";
import { BUNDLE, bundlePrograms } from "./programs.mjs";

rmSync("dist", { recursive: true, force: true });
// `npm run typecheck` checks the sources. Examples are checked here against the published types.
writeDeclarations();
const tsc = spawnSync(
  process.execPath,
  ["node_modules/typescript/bin/tsc", "-p", "tsconfig.examples.json"],
  { stdio: "inherit" },
);
if (tsc.status !== 0) process.exit(tsc.status ?? 1);
// One build, so that the doors share chunks: two copies of a class would break `instanceof`.
await build({
  ...BUNDLE,
  outdir: "dist",
  entryPoints: DOORS.map(({ file }) => `src/${file}.ts`),
});
await bundlePrograms("dist");
chmodSync("dist/cli/launch.cjs", 0o755);
